#pragma once
// /api/v1/keys: API keys are made, listed, shown and deleted by administrators.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "gateway/key_ring.h"
#include "http/request.h"
#include "http/response.h"

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Keys {
 public:
  // Everything must outlive the server that serves these routes; `random` is fit for secrets and
  // safe from any thread.
  Keys(KeyRing& ring, store::Store& store, Random& random, RateLimit default_limit)
      : ring_(ring), store_(store), random_(random), default_limit_(default_limit) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> create(http::Request& request);
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> show(http::Request& request);
  Task<Result<http::Response>> remove(http::Request& request);

  KeyRing& ring_;
  store::Store& store_;
  Random& random_;
  const RateLimit default_limit_;
};

}  // namespace nimbus::gateway
