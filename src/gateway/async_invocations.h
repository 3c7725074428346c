#pragma once
// /api/v1/invocations: what became of asynchronous calls.

#include "base/result.h"
#include "base/task.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class AsyncInvocations {
 public:
  // `calls` must outlive the server that serves these routes.
  explicit AsyncInvocations(session::Calls& calls) : calls_(calls) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> show(http::Request& request);
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> cancel(http::Request& request);
  Task<Result<http::Response>> replay(http::Request& request);

  session::Calls& calls_;
};

}  // namespace nimbus::gateway
