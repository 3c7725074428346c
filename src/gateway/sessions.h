#pragma once
// /api/v1/functions/{id}/sessions and …/state: sessions and their state, for administrators. State
// of function scope too. Writes to a session take their place in its order like any call.

#include "base/result.h"
#include "base/task.h"
#include "gateway/forwarding.h"
#include "gateway/invocations.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"
#include "state/operation.h"
#include "store/store.h"

#include <optional>
#include <string>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Sessions {
 public:
  // Everything must outlive the server that serves these routes.
  Sessions(session::Calls& calls, store::Store& store, FindFunction find, std::string node_id,
           Forwarding& forwarding)
      : calls_(calls),
        store_(store),
        find_(std::move(find)),
        node_id_(std::move(node_id)),
        forwarding_(forwarding) {}

  void addRoutes(http::Router& router);

 private:
  // Whose state a request is about. Without a session key: the function's.
  struct Target {
    session::FunctionPtr function;
    std::optional<std::string> session_key;
    std::string key;  // empty: all

    store::Partition partition() const;
  };

  Task<Result<http::Response>> listSessions(http::Request& request);
  // As its owner shows it, if that is another node who answers.
  Task<std::string> shown(const http::Request& request, const session::FunctionSpec& function,
                          const session::SessionView& view);
  Task<Result<http::Response>> showSession(http::Request& request);
  Task<Result<http::Response>> deleteSession(http::Request& request);

  Task<Result<http::Response>> listState(http::Request& request);
  Task<Result<http::Response>> getState(http::Request& request);
  Task<Result<http::Response>> putState(http::Request& request);
  Task<Result<http::Response>> incrState(http::Request& request);
  Task<Result<http::Response>> deleteState(http::Request& request);

  Result<session::FunctionPtr> functionOf(const http::Request& request) const;
  Result<Target> targetOf(const http::Request& request) const;
  Task<Result<>> mustExist(Target target);
  // Carries the operation out and counts it.
  Task<Result<state::Answer>> apply(Target target, state::Operation operation,
                                    std::string request_id);
  Task<Result<state::Answer>> carryOut(Target target, state::Operation operation,
                                       std::string request_id);
  void count(const Target& target, state::Operation::Kind kind, std::optional<Code> failed,
             SteadyTime begun) const;
  std::string sessionText(const session::FunctionSpec& function,
                          const session::SessionView& view) const;
  void addStateRoutes(http::Router& router, const std::string& base, const std::string& what);

  session::Calls& calls_;
  store::Store& store_;
  const FindFunction find_;
  const std::string node_id_;
  Forwarding& forwarding_;
};

}  // namespace nimbus::gateway
