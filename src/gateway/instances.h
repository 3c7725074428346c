#pragma once
// GET /api/v1/instances and /api/v1/ring: the nodes that share the store.

#include "base/result.h"
#include "base/task.h"
#include "cluster/members.h"
#include "http/request.h"
#include "http/response.h"
#include "store/store.h"

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Instances {
 public:
  // Everything must outlive the server that serves these routes.
  Instances(cluster::Members& members, const store::Store& store)
      : members_(members), store_(store) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> ring(http::Request& request);

  cluster::Members& members_;
  const store::Store& store_;
};

}  // namespace nimbus::gateway
