#pragma once
// /health, /health/live and /health/ready: what load balancers and people ask first.

#include "base/result.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "http/request.h"
#include "http/response.h"

#include <cstddef>
#include <string>
#include <vector>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

// What a store says of itself.
struct StoreStatus {
  std::string backend;     // "sqlite", "redis", "memory"
  std::string durability;  // what an answered commit survives: "disk", "replicated", "memory"
};

// Whether the store answers. Called by every health check, on any of the server's threads at once,
// so it must be cheap, and must answer within two seconds even if the store does not.
class StoreHealth {
 public:
  virtual ~StoreHealth() = default;
  virtual Task<Result<StoreStatus>> check() = 0;
};

// What the instance is busy with. Any thread may ask.
class Activity {
 public:
  virtual ~Activity() = default;
  virtual std::size_t sessions() const = 0;  // that this instance owns
  virtual std::vector<std::string> connectedChannels() const = 0;
};

class Health {
 public:
  // All must outlive the Health, and the Health the server that serves its routes.
  struct Parts {
    StoreHealth& store;
    const Activity& activity;
    const SteadyClock& clock;
  };

  Health(std::string instance_id, Parts parts);

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> health(http::Request& request);
  Task<Result<http::Response>> live(http::Request& request);
  Task<Result<http::Response>> ready(http::Request& request);

  const std::string instance_id_;
  const Parts parts_;
  const SteadyTime started_;
};

}  // namespace nimbus::gateway
