#include "gateway/http_metrics.h"

#include "http/router.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::gateway {
namespace {

constexpr int kFirstStatus = 100;
constexpr int kLastStatus = 599;
constexpr auto kStatuses = static_cast<std::size_t>(kLastStatus - kFirstStatus + 1);

// From a fast local answer to a slow function, in seconds.
std::vector<double> durationBuckets() {
  return {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
}

// A counter that is looked up when it is first needed: most pairs of route and status never occur,
// and a scrape should not list them. Two threads may look it up at once; they find the same one.
class LazyCounter {
 public:
  template <typename LookUp>
  void increment(LookUp look_up) {
    const Counter* known = counter_.load(std::memory_order_acquire);
    if (known == nullptr) {
      auto found = std::make_unique<Counter>(look_up());
      if (counter_.compare_exchange_strong(known, found.get(), std::memory_order_acq_rel)) {
        known = found.release();
      }
    }
    Counter(*known).increment();
  }

  LazyCounter() = default;
  ~LazyCounter() { delete counter_.load(); }  // NOLINT(cppcoreguidelines-owning-memory)
  LazyCounter(const LazyCounter&) = delete;
  LazyCounter& operator=(const LazyCounter&) = delete;

 private:
  std::atomic<const Counter*> counter_ = nullptr;
};

}  // namespace

struct HttpMetrics::PerRoute {
  PerRoute(std::string route, Histogram duration_of)
      : label(std::move(route)), duration(duration_of) {}

  using ByStatus = std::array<LazyCounter, kStatuses>;

  void add(http::Method method) {
    auto& counters = requests[static_cast<std::size_t>(method)];
    if (!counters) counters = std::make_unique<ByStatus>();
  }
  ByStatus* find(http::Method method) { return requests[static_cast<std::size_t>(method)].get(); }

  const std::string label;
  Histogram duration;
  std::array<std::unique_ptr<ByStatus>, http::kMethodCount> requests;  // of methods the route has
};

HttpMetrics::HttpMetrics(Metrics& metrics, const http::Router& router)
    : requests_(metrics.counters("nimbus_http_requests_total", "Requests answered.",
                                 {{"method", Metrics::Values::Closed},
                                  {"route", Metrics::Values::Closed},
                                  {"status", Metrics::Values::Open}},
                                 2000)),
      connections_(metrics.gauge("nimbus_http_connections", "Connections that are open.")),
      connections_total_(
          metrics.counter("nimbus_http_connections_total", "Connections that were accepted.")),
      bytes_in_(metrics.counter("nimbus_http_received_bytes_total", "Bytes of requests.")),
      bytes_out_(metrics.counter("nimbus_http_sent_bytes_total", "Bytes of answers.")) {
  const auto durations = metrics.histograms(
      "nimbus_http_request_duration_seconds", "From a request's complete head to its answer's end.",
      {{"route", Metrics::Values::Closed}}, durationBuckets());
  for (const auto& route : router.routes()) {
    auto& entry = routes_[route->pattern];
    if (!entry) {
      entry = std::make_unique<PerRoute>(route->pattern, durations.with({route->pattern}));
    }
    entry->add(route->method);
    if (route->method == http::Method::Get) entry->add(http::Method::Head);
  }
  none_ = std::make_unique<PerRoute>("none", durations.with({"none"}));
  for (std::size_t i = 0; i < http::kMethodCount; ++i) none_->add(static_cast<http::Method>(i));
}

HttpMetrics::~HttpMetrics() = default;

void HttpMetrics::onConnectionOpened() {
  connections_.add(1);
  connections_total_.increment();
}

void HttpMetrics::onConnectionClosed() {
  connections_.add(-1);
}

HttpMetrics::PerRoute& HttpMetrics::perRoute(std::string_view pattern, http::Method method) {
  const auto found = routes_.find(pattern);
  const bool known = found != routes_.end() && found->second->find(method) != nullptr;
  return known ? *found->second : *none_;
}

void HttpMetrics::onRequest(const http::Exchange& exchange) {
  PerRoute& route = perRoute(exchange.route, exchange.method);
  const int status = std::clamp(exchange.status, kFirstStatus, kLastStatus);
  auto& counter = (*route.find(exchange.method))[static_cast<std::size_t>(status - kFirstStatus)];
  counter.increment([&] {
    return requests_.with(
        {std::string(http::methodName(exchange.method)), route.label, std::to_string(status)});
  });
  route.duration.observe(std::chrono::duration<double>(exchange.duration).count());
  bytes_in_.increment(static_cast<double>(exchange.bytes_in));
  bytes_out_.increment(static_cast<double>(exchange.bytes_out));
}

}  // namespace nimbus::gateway
