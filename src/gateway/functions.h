#pragma once
// /api/v1/functions: deploying functions and looking at them.

#include "base/result.h"
#include "base/task.h"
#include "deployment/deployments.h"
#include "function/catalog.h"
#include "http/request.h"
#include "http/response.h"
#include "session/calls.h"

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Functions {
 public:
  // Everything must outlive the server that serves these routes.
  Functions(deployment::Deployments& deployments, function::Catalog& catalog, session::Calls& calls)
      : deployments_(deployments), catalog_(catalog), calls_(calls) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> put(http::Request& request);
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> show(http::Request& request);
  Task<Result<http::Response>> remove(http::Request& request);
  Task<Result<http::Response>> versions(http::Request& request);
  Task<Result<http::Response>> rollback(http::Request& request);
  Task<Result<http::Response>> logs(http::Request& request);
  Task<Result<http::Response>> exportOne(http::Request& request);

  deployment::Deployments& deployments_;
  function::Catalog& catalog_;
  session::Calls& calls_;
};

}  // namespace nimbus::gateway
