#pragma once
// What a browser or a program that does not know the server yet looks at first: /, /docs,
// /openapi.json; and /metrics.

#include "base/metrics.h"
#include "base/task.h"
#include "http/request.h"
#include "http/response.h"

#include <string>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Pages {
 public:
  // `metrics` must outlive the Pages, and the Pages the server that serves their routes.
  explicit Pages(const Metrics& metrics) : metrics_(metrics) {}

  void addRoutes(http::Router& router);

  // Writes the OpenAPI document of everything `router` has; call it when that is all there will be.
  void describe(const http::Router& router);

 private:
  Task<Result<http::Response>> exposition();

  const Metrics& metrics_;
  std::string document_;
};

}  // namespace nimbus::gateway
