#include "base/log.h"
#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <vector>

namespace nimbus::http {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(HookTest, TheAuthorizerDecidesBeforeTheBodyIsRead) {
  class Doorkeeper final : public Authorizer {
   public:
    Task<Result<>> authorize(Request& request, const Route& route) override {
      request.answer_fields.add("RateLimit-Limit", "600");
      if (request.header("authorization") == "Bearer good") co_return Result<>();
      if (route.scope.empty()) co_return Error(Code::Unauthenticated, "who are you?");
      co_return Error(Code::Forbidden, "not you").with("scope", route.scope);
    }
  };
  Doorkeeper doorkeeper;
  TestServer server({}, 1, {.authorizer = &doorkeeper});
  RawClient client(server.port());
  client.send("GET /sessions/a HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n");
  const auto welcome = client.receive();
  EXPECT_EQ(statusOf(welcome), 200);
  EXPECT_EQ(welcome->header("RateLimit-Limit"), "600");
  client.send("GET /sessions/a HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto forbidden = client.receive();
  EXPECT_EQ(statusOf(forbidden), 403);
  EXPECT_THAT(forbidden->body, HasSubstr(R"("scope":"sessions:read")"));
  EXPECT_EQ(forbidden->header("RateLimit-Limit"), "600");
  // No body was sent, and none is waited for.
  client.send(
      "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n"
      "Expect: 100-continue\r\n\r\n");
  const auto stranger = client.receive();
  EXPECT_EQ(statusOf(stranger), 401);
  EXPECT_EQ(stranger->header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(stranger->header("Connection"), "close");
  EXPECT_EQ(server.executed, 0);
}

// What an observer was told of each request, as a line.
class Ledger final : public Watch {
 public:
  void onRequest(const Exchange& exchange) override {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::string(methodName(exchange.method)) + " " + std::string(exchange.route) +
                     " " + std::to_string(exchange.status) + " " +
                     std::to_string(exchange.bytes_in));
    took_ += exchange.duration;
  }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  std::chrono::nanoseconds took() const {
    const std::lock_guard lock(mutex_);
    return took_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::chrono::nanoseconds took_{};
};

TEST(HookTest, TheObserverSeesEveryRequestAndConnectionOnce) {
  Ledger ledger;
  {
    TestServer server({}, 1, {.observer = &ledger});
    RawClient client(server.port());
    client.send("GET /sessions/a HTTP/1.1\r\nHost: x\r\n\r\n" + echo("abc") +
                "GET /none HTTP/1.1\r\nHost: x\r\n\r\nGET /bad HTTP/1.1\r\n\r\n");
    client.receiveAll();
  }
  EXPECT_TRUE(ledger.opened.try_acquire());
  EXPECT_FALSE(ledger.opened.try_acquire());
  EXPECT_TRUE(ledger.closed.try_acquire());
  EXPECT_FALSE(ledger.closed.try_acquire());
  EXPECT_THAT(ledger.lines(), ElementsAre("GET /sessions/{key:text} 200 37", "POST /echo 200 54",
                                          "GET  404 31", "GET  400 21"));
}

TEST(HookTest, HowLongARequestTookIsFromItsHeadToItsAnswer) {
  Ledger ledger;
  TestServer server({}, 1, {.observer = &ledger});
  RawClient client(server.port());
  client.send(kHeld);
  server.held.acquire();
  server.pass(std::chrono::seconds(3));
  server.release();
  EXPECT_EQ(statusOf(client.receive()), 200);
  EXPECT_EQ(ledger.took(), std::chrono::seconds(3));
}

// A connection's earlier requests, or those that had its buffers before, leave no trace in what is
// said of a later one that never became a request.
TEST(HookTest, ARefusalHasNothingOfAnEarlierRequest) {
  const std::string before = "HEAD /sessions/a HTTP/1.1\r\nHost: x\r\n\r\n";
  const std::string seen = "HEAD /sessions/{key:text} 200 38";
  ServerOptions options;
  options.max_connections = 1;
  Ledger ledger;
  TestServer server(std::move(options), 1, {.observer = &ledger});
  {
    RawClient malformed(server.port());
    malformed.send(before);
    EXPECT_EQ(statusOf(malformed.receive(true)), 200);
    malformed.send("GET / HTTP/1.1\n\n");
    const auto answer = malformed.receive();
    EXPECT_EQ(statusOf(answer), 400);
    EXPECT_THAT(answer->body, HasSubstr("invalid_argument"));
  }
  ledger.closed.acquire();
  {
    RawClient late(server.port());
    late.send(before + "GET /h");
    EXPECT_EQ(statusOf(late.receive(true)), 200);
    server.pass(ServerOptions().header_timeout);
    const auto answer = late.receive();
    EXPECT_EQ(statusOf(answer), 408);
    EXPECT_THAT(answer->body, HasSubstr("timeout"));

    RawClient too_many(server.port());
    const auto turned_away = too_many.receive();
    EXPECT_EQ(statusOf(turned_away), 503);
    EXPECT_THAT(turned_away->body, HasSubstr("too many connections"));
  }
  ledger.closed.acquire();
  ledger.closed.acquire();
  EXPECT_THAT(ledger.lines(), ElementsAre(seen, "GET  400 16", seen, "GET  408 6", "GET  503 0"));
  EXPECT_EQ(ledger.took(), std::chrono::seconds(0));
}

TEST(HookTest, AskedForAccessLinesAreWrittenWhateverTheLevel) {
  log::configure(log::Level::Error, log::Format::Json);
  ::testing::internal::CaptureStderr();
  {
    ServerOptions options;
    options.access_log = true;
    TestServer server(std::move(options));
    RawClient client(server.port());
    client.send(echo("abc") + "GET /none HTTP/1.1\r\n\r\n");
    EXPECT_EQ(statusOf(client.receive()), 200);
    EXPECT_EQ(statusOf(client.receive()), 400);
  }
  {
    TestServer silent;
    RawClient client(silent.port());
    client.send(kHello);
    EXPECT_EQ(statusOf(client.receive()), 200);
  }
  const std::string lines = ::testing::internal::GetCapturedStderr();
  log::configure(log::Level::Info, log::Format::Auto);
  EXPECT_THAT(lines,
              HasSubstr(R"("peer":"127.0.0.1","method":"POST","path":"/echo","status":200)"));
  EXPECT_THAT(lines, HasSubstr(R"("status":400)"));
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2) << lines;
}

}  // namespace
}  // namespace nimbus::http
