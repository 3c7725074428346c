#pragma once
// POST /api/v1/functions/{id}/invoke: from a request to a call and back.

#include "base/result.h"
#include "base/task.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"

#include <functional>
#include <string>
#include <string_view>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

// The function of that id as it is deployed now; null if there is none. Any thread asks.
using FindFunction = std::function<session::FunctionPtr(std::string_view id)>;

Error noFunction(std::string_view id);

class Invocations {
 public:
  // Everything must outlive the server that serves these routes.
  Invocations(session::Calls& calls, FindFunction find, std::string node_id)
      : calls_(calls), find_(std::move(find)), node_id_(std::move(node_id)) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> invoke(http::Request& request);
  Task<Result<http::Response>> accept(session::CallPtr call, Millis delay);
  http::Response respond(const session::Call& call, std::string_view node_id) const;
  http::Response replay(session::StoredAnswer answer) const;
  static http::Response accepted(const std::string& request_id, std::uint64_t seq,
                                 std::string_view node_id);

  session::Calls& calls_;
  const FindFunction find_;
  const std::string node_id_;
};

}  // namespace nimbus::gateway
