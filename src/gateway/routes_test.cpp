// The routes of this folder, called the way the server calls them but without one.

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "gateway/audit.h"
#include "gateway/authorization.h"
#include "gateway/health.h"
#include "gateway/http_metrics.h"
#include "gateway/key_ring.h"
#include "gateway/pages.h"
#include "gateway/rate_limits.h"
#include "http/router.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

class FakeStore final : public StoreHealth {
 public:
  Task<Result<StoreStatus>> check() override {
    if (is_away) co_return Error(Code::Unavailable, "disk I/O error on /secret/path");
    co_return StoreStatus{"sqlite", "disk"};
  }
  bool is_away = false;
};

class FakeActivity final : public Activity {
 public:
  std::size_t sessions() const override { return 42; }
  std::vector<std::string> connectedChannels() const override { return {"http", "discord"}; }
};

class RoutesTest : public ::testing::Test {
 protected:
  RoutesTest() {
    health_.addRoutes(router_);
    pages_.addRoutes(router_);
    pages_.describe(router_);
  }

  const http::Route& route(std::string_view pattern) {
    for (const auto& route : router_.routes()) {
      if (route->pattern == pattern) return *route;
    }
    ADD_FAILURE() << "no route " << pattern;
    return *router_.routes().front();
  }

  http::Response get(std::string_view pattern) {
    asio::io_context io;
    http::Request request;
    std::optional<http::Response> response;
    asio::co_spawn(io, route(pattern).handler(request),
                   [&](const std::exception_ptr&, Result<http::Response> result) {
                     ASSERT_TRUE(result);
                     response.emplace(*std::move(result));
                   });
    io.run();
    return *std::move(response);
  }
  json::object getJson(std::string_view pattern) {
    return json::parse(std::string(get(pattern).content())).as_object();
  }

  FakeStore store_;
  FakeActivity activity_;
  ManualSteadyClock clock_;
  Metrics metrics_;
  Health health_{"gw-test", {store_, activity_, clock_}};
  Pages pages_{metrics_};
  http::Router router_;
};

TEST_F(RoutesTest, HealthHasExactlyItsFields) {
  clock_.advance(std::chrono::milliseconds(3'600'999));
  const http::Response response = get("/health");
  EXPECT_EQ(response.status, 200);
  EXPECT_EQ(response.body.substr(0, 21), R"({"ok":true,"version":)");
  const json::object body = getJson("/health");
  EXPECT_EQ(body.size(), 6U);
  EXPECT_EQ(body.at("instanceId").as_string(), "gw-test");
  EXPECT_EQ(body.at("uptime").as_int64(), 3600);
  EXPECT_EQ(body.at("sessions").to_number<int>(), 42);
  EXPECT_EQ(body.at("connectedChannels"), json::array({"http", "discord"}));
}

TEST_F(RoutesTest, HealthFailsWithTheStoreAndLifeGoesOn) {
  store_.is_away = true;
  EXPECT_EQ(get("/health").status, 503);
  EXPECT_FALSE(getJson("/health").at("ok").as_bool());
  EXPECT_EQ(get("/health/live").status, 200);

  const http::Response ready = get("/health/ready");
  EXPECT_EQ(ready.status, 503);
  EXPECT_THAT(ready.body, AllOf(HasSubstr("\"ready\":false"), Not(HasSubstr("secret"))));
}

TEST_F(RoutesTest, ReadySaysWhatAnAnswerSurvives) {
  const json::object body = getJson("/health/ready");
  EXPECT_TRUE(body.at("ready").as_bool());
  EXPECT_EQ(body.at("store").at("backend").as_string(), "sqlite");
  EXPECT_EQ(body.at("store").at("durability").as_string(), "disk");
}

TEST_F(RoutesTest, OnlyWhatIsMeantToBePublicIsOpenWithoutAKey) {
  ManualClock clock;
  SystemRandom random;
  asio::io_context background;
  store::memory::MemoryStore store(clock);
  KeyRing ring(store, clock_, {});
  RateLimits limits(store, clock_, {});
  AuditLog log(store, random, {});
  Audit audit(log, clock_, background.get_executor());
  Authorization authorization({}, {ring, limits, audit, store});
  std::set<std::string> open;
  for (const auto& route : router_.routes()) {
    asio::io_context io;
    http::Request request;
    asio::co_spawn(io, authorization.authorize(request, *route),
                   [&](const std::exception_ptr&, Result<> result) {
                     if (result) open.insert(route->pattern);
                   });
    io.run();
  }
  EXPECT_THAT(open,
              UnorderedElementsAre("/", "/docs", "/docs/docs.js", "/docs/docs.css", "/openapi.json",
                                   "/health", "/health/live", "/health/ready"));
}

TEST_F(RoutesTest, TheOpenApiDocumentHasEveryRoute) {
  const json::object paths = getJson("/openapi.json").at("paths").as_object();
  for (const auto& route : router_.routes()) {
    EXPECT_TRUE(paths.contains(route->pattern)) << route->pattern;
  }
}

TEST_F(RoutesTest, PagesLoadNothingFromElsewhere) {
  for (const char* pattern : {"/", "/docs", "/docs/docs.js", "/docs/docs.css"}) {
    const http::Response page = get(pattern);
    const std::string text(page.content());
    EXPECT_THAT(text, AllOf(Not(HasSubstr("http://")), Not(HasSubstr("https://")),
                            Not(HasSubstr("innerHTML"))))
        << pattern;
    EXPECT_THAT(std::string(page.fields.find("Content-Security-Policy")),
                AllOf(HasSubstr("default-src 'none'"), Not(HasSubstr("unsafe"))))
        << pattern;
    EXPECT_EQ(page.fields.find("X-Content-Type-Options"), "nosniff") << pattern;
  }
}

TEST_F(RoutesTest, RequestsAreCountedByRouteMethodAndStatus) {
  HttpMetrics observer(metrics_, router_);
  http::Exchange exchange;
  exchange.route = "/health";
  exchange.status = 200;
  exchange.duration = std::chrono::milliseconds(2);
  exchange.bytes_in = 10;
  exchange.bytes_out = 20;
  observer.onRequest(exchange);
  observer.onRequest(exchange);
  exchange.status = 503;
  observer.onRequest(exchange);
  exchange.method = http::Method::Head;
  observer.onRequest(exchange);
  exchange.route = "";
  exchange.status = 404;
  exchange.method = http::Method::Trace;
  observer.onRequest(exchange);
  exchange.status = 7777;
  observer.onRequest(exchange);
  observer.onConnectionOpened();
  observer.onConnectionOpened();
  observer.onConnectionClosed();

  EXPECT_THAT(std::string(get("/metrics").content()),
              AllOf(HasSubstr(R"(requests_total{method="GET",route="/health",status="200"} 2)"),
                    HasSubstr(R"(requests_total{method="GET",route="/health",status="503"} 1)"),
                    HasSubstr(R"(requests_total{method="HEAD",route="/health",status="503"} 1)"),
                    HasSubstr(R"(requests_total{method="TRACE",route="none",status="404"} 1)"),
                    HasSubstr(R"(requests_total{method="TRACE",route="none",status="599"} 1)"),
                    HasSubstr(R"(duration_seconds_bucket{route="/health",le="0.0025"} 4)"),
                    HasSubstr("nimbus_http_received_bytes_total 60\n"),
                    HasSubstr("nimbus_http_sent_bytes_total 120\n"),
                    HasSubstr("nimbus_http_connections 1\n"),
                    HasSubstr("nimbus_http_connections_total 2\n")));
}

TEST_F(RoutesTest, ThreadsThatCountAtOnceLoseNothing) {
  HttpMetrics observer(metrics_, router_);
  constexpr int kThreads = 4;
  constexpr int kEach = 5'000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      http::Exchange exchange;
      exchange.route = "/health";
      for (int n = 0; n < kEach; ++n) {
        exchange.status = 200 + n % 50;  // each is looked up for the first time by several threads
        observer.onRequest(exchange);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string text(get("/metrics").content());
  for (const char* status : {"200", "225", "249"}) {
    EXPECT_THAT(text, HasSubstr("route=\"/health\",status=\"" + std::string(status) + "\"} 400\n"));
  }
}

}  // namespace
}  // namespace nimbus::gateway
