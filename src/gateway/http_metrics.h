#pragma once
// The figures of the HTTP server.

#include "base/metrics.h"
#include "http/observer.h"

#include <memory>
#include <string_view>
#include <unordered_map>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

// nimbus_http_requests_total{method,route,status}, nimbus_http_request_duration_seconds{route},
// nimbus_http_connections, nimbus_http_connections_total and the bytes both ways.
//
// `route` is a route's pattern, so the paths of callers never become labels; requests that found no
// route are counted as "none". A request costs one lookup by the pattern and no lock.
class HttpMetrics final : public http::Observer {
 public:
  // `router` has all its routes and outlives this, as `metrics` does.
  HttpMetrics(Metrics& metrics, const http::Router& router);
  ~HttpMetrics() override;
  HttpMetrics(const HttpMetrics&) = delete;
  HttpMetrics& operator=(const HttpMetrics&) = delete;

  void onConnectionOpened() override;
  void onConnectionClosed() override;
  void onRequest(const http::Exchange& exchange) override;

 private:
  struct PerRoute;

  PerRoute& perRoute(std::string_view pattern, http::Method method);

  Metrics::Family<Counter> requests_;
  Gauge connections_;
  Counter connections_total_;
  Counter bytes_in_;
  Counter bytes_out_;
  // Filled by the constructor and only read after that. The keys are views of the router's.
  std::unordered_map<std::string_view, std::unique_ptr<PerRoute>> routes_;
  std::unique_ptr<PerRoute> none_;
};

}  // namespace nimbus::gateway
