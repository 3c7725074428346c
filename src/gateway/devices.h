#pragma once
// /api/v1/devices and /api/v1/events/poll: devices are paired, approved and sent events.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "gateway/device.h"
#include "gateway/device_events.h"
#include "gateway/key_ring.h"
#include "gateway/rate_limits.h"
#include "http/request.h"
#include "http/response.h"
#include "store/store.h"

#include <functional>
#include <string>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Devices {
 public:
  struct Parts {
    KeyRing& ring;
    store::Store& store;
    RateLimits& limits;
    Random& random;  // fit for secrets and safe from any thread
  };
  // Everything must outlive the server that serves these routes.
  explicit Devices(Parts parts) : parts_(parts), events_(parts.store) {}

  void addRoutes(http::Router& router);

 private:
  // As it was read, and where.
  struct Found {
    Device device;
    const char* space = nullptr;
    store::Version version = 0;
  };

  Task<Result<http::Response>> pair(http::Request& request);
  Task<Result<http::Response>> pairing(http::Request& request);
  Task<Result<http::Response>> list(http::Request& request);
  Task<Result<http::Response>> show(http::Request& request);
  Task<Result<http::Response>> approve(http::Request& request);
  Task<Result<http::Response>> reject(http::Request& request);
  Task<Result<http::Response>> revoke(http::Request& request);
  Task<Result<http::Response>> rotate(http::Request& request);
  Task<Result<http::Response>> setScopes(http::Request& request);
  Task<Result<http::Response>> sendEvent(http::Request& request);
  Task<Result<http::Response>> poll(http::Request& request);

  Task<Result<Found>> find(std::string id);
  Task<Result<Found>> findApproved(std::string id);
  Task<Result<std::string>> fetchToken(Found found);
  Task<Result<>> refuseCode(Found found);
  // Puts the device in the place of the one that was found; Conflict if that has changed since.
  Task<Result<>> replace(Found found);
  void addAdministration(http::Router& router);

  const Parts parts_;
  DeviceEvents events_;
};

}  // namespace nimbus::gateway
