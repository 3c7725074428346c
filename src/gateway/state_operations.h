#pragma once
// POST /api/v1/functions/{id}/state-operations: any operation of the state API, on one session.
// This is how a stateless call reaches the session `_default` when another node owns it.

#include "base/result.h"
#include "base/task.h"
#include "gateway/invocations.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"
#include "state/operation.h"

#include <string>
#include <string_view>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

// Values are JSON texts in strings, so that they come back byte for byte.
std::string operationText(std::string_view session_key, const state::Operation& operation);
Result<state::Operation> parseOperation(std::string_view json, std::string& session_key);
std::string answerText(const state::Answer& answer);
Result<state::Answer> parseAnswer(std::string_view json);

class StateOperations {
 public:
  // Everything must outlive the server that serves the route.
  StateOperations(session::Calls& calls, FindFunction find)
      : calls_(calls), find_(std::move(find)) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> apply(http::Request& request);

  session::Calls& calls_;
  const FindFunction find_;
};

}  // namespace nimbus::gateway
