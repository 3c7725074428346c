#pragma once
// Event logs carried from server to server: /api/v1/apps, …/sessions/{session}/export and
// …/sessions:import. Those of functions' sessions go with the session; see session_control.h.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "http/request.h"
#include "http/response.h"
#include "store/store.h"

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class EventTransfer {
 public:
  // Everything must outlive the server that serves these routes.
  EventTransfer(store::Store& store, Random& random) : store_(store), random_(random) {}

  void addRoutes(http::Router& router);

 private:
  Task<Result<http::Response>> apps(http::Request& request);
  Task<Result<http::Response>> exportLog(http::Request& request);
  Task<Result<http::Response>> importLog(http::Request& request);

  store::Store& store_;
  Random& random_;
};

}  // namespace nimbus::gateway
