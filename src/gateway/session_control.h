#pragma once
// /api/v1/functions/{id}/sessions/{session_key}/pause and such: sessions held, carried from server
// to server, and dealt with by the prefix of their keys.

#include "base/result.h"
#include "base/task.h"
#include "gateway/forwarding.h"
#include "gateway/invocations.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"
#include "store/store.h"

#include <string>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class SessionControl {
 public:
  // Everything must outlive the server that serves these routes.
  SessionControl(session::Calls& calls, store::Store& store, FindFunction find,
                 Forwarding& forwarding)
      : calls_(calls), store_(store), find_(std::move(find)), forwarding_(forwarding) {}

  void addRoutes(http::Router& router);

 private:
  enum class Verb : std::uint8_t { Pause, Resume, Drain, Delete };

  void addVerb(http::Router& router, Verb verb);
  void addBulkVerb(http::Router& router, Verb verb);
  Result<std::string> functionOf(const http::Request& request) const;
  Task<Result<>> carryOut(Verb verb, std::string function_id, std::string session_key);
  // The same, by whichever node owns the session.
  Task<Result<>> carryOutAnywhere(const http::Request& request, Verb verb, std::string function_id,
                                  std::string session_key);
  Task<Result<http::Response>> one(http::Request& request, Verb verb);
  Task<Result<http::Response>> many(http::Request& request, Verb verb);
  Task<Result<http::Response>> exportSession(http::Request& request);
  Task<Result<http::Response>> importSession(http::Request& request);

  session::Calls& calls_;
  store::Store& store_;
  const FindFunction find_;
  Forwarding& forwarding_;
};

}  // namespace nimbus::gateway
