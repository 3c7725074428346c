#include "base/log.h"
#include "http/testing/test_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>

namespace nimbus::http {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kHello = "GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";

std::string echo(std::string_view body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + std::string(body);
}

int statusOf(const std::optional<RawAnswer>& answer) {
  return answer ? answer->status : 0;
}

TEST(ServerTest, AnswersCarryDateLengthTypeAndId) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHello);
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "hello");
  EXPECT_EQ(answer->header("Content-Length"), "5");
  EXPECT_EQ(answer->header("Content-Type"), "text/plain; charset=utf-8");
  EXPECT_THAT(answer->header("Date"), ::testing::EndsWith(" GMT"));
  EXPECT_EQ(answer->header("Connection"), "");
}

TEST(ServerTest, PassesAWellFormedTraceparentOn) {
  TestServer server;
  RawClient client(server.port());
  const std::string parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\ntraceparent: " + parent + "\r\n\r\n");
  EXPECT_EQ(client.receive()->header("Echo-Traceparent"), parent);
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTraceparent: 00-XX\r\n\r\n");
  EXPECT_EQ(client.receive()->header("Echo-Traceparent"), "");
}

TEST(ServerTest, RequestIdsAreOursAndUnique) {
  TestServer server({}, 2);
  std::set<std::string> ids;
  for (int connection = 0; connection < 4; ++connection) {
    RawClient client(server.port());
    for (int i = 0; i < 50; ++i) {
      client.send("GET /hello HTTP/1.1\r\nHost: x\r\nNimbus-Request-Id: mine\r\n\r\n");
      ids.insert(client.receive()->header("Nimbus-Request-Id"));
    }
  }
  EXPECT_EQ(ids.size(), 200U);
  EXPECT_FALSE(ids.contains("mine"));
}

TEST(ServerTest, AnswersPipelinedRequestsInOrder) {
  TestServer server;
  RawClient client(server.port());
  client.send(echo("one") + std::string(kHello) +
              "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
              "2\r\ntw\r\n1\r\no\r\n0\r\n\r\n" +
              "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n" + echo("three"));
  EXPECT_EQ(client.receive()->body, "one");
  EXPECT_EQ(client.receive()->body, "hello");
  EXPECT_EQ(client.receive()->body, "two");
  EXPECT_EQ(client.receive(true)->header("Content-Length"), "5");
  EXPECT_EQ(client.receive()->body, "three");
}

TEST(ServerTest, AnswersAHundredRequestsOfOneWrite) {
  TestServer server;
  RawClient client(server.port());
  std::string requests;
  for (int i = 0; i < 100; ++i) requests += echo("number " + std::to_string(i));
  client.send(requests);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(client.receive()->body, "number " + std::to_string(i));
  }
}

TEST(ServerTest, PipelinedAnswersMayOutgrowEveryBuffer) {
  TestServer server;
  RawClient client(server.port());
  const std::string body(50'000, 'b');
  std::thread sender([&] {
    for (int i = 0; i < 40; ++i) client.send(echo(body));
  });
  for (int i = 0; i < 40; ++i) EXPECT_EQ(client.receive()->body, body);
  sender.join();
}

TEST(ServerTest, AnAnswerDoesNotWaitForTheRequestBehindIt) {
  TestServer server;
  RawClient client(server.port());
  client.send(std::string(kHello) + "GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "hello");
  server.held.acquire();
  server.release();
  EXPECT_EQ(client.receive()->body, "released");
}

TEST(ServerTest, HeadIsGetWithoutTheBody) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /big?size=100000 HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kHello));
  const auto head = client.receive(true);
  EXPECT_EQ(statusOf(head), 200);
  EXPECT_EQ(head->header("Content-Length"), "100000");
  EXPECT_EQ(client.receive()->body, "hello");
}

TEST(ServerTest, KeepAliveFollowsTheVersion) {
  TestServer server;
  RawClient old(server.port());
  old.send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(old.receive()->header("Connection"), "keep-alive");
  old.send("GET /hello HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.receive()->header("Connection"), "close");
  EXPECT_EQ(old.waitForEnd(), RawClient::Ended::Closed);

  RawClient modern(server.port());
  modern.send("GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_EQ(modern.receive()->header("Connection"), "close");
  EXPECT_EQ(modern.waitForEnd(), RawClient::Ended::Closed);
}

TEST(ServerTest, IgnoresWhatFollowsAConnectionClose) {
  TestServer server;
  RawClient client(server.port());
  client.send(
      "GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
      "POST /count HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "hello");
  EXPECT_EQ(client.receiveAll(), "");
  EXPECT_EQ(server.executed, 0);
}

TEST(ServerTest, AnswersAClientThatHasFinishedSending) {
  TestServer server;
  RawClient client(server.port());
  client.send(echo("last words"));
  client.finishSending();
  EXPECT_EQ(client.receive()->body, "last words");
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
}

TEST(ServerTest, BodiesMayReachTheLimitAndNotPassIt) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(std::move(options));
  RawClient client(server.port());
  client.send(echo(std::string(1000, 'a')));
  EXPECT_EQ(statusOf(client.receive()), 200);
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" +
              std::string(1000, 'a') + "\r\n0\r\n\r\n");
  EXPECT_EQ(statusOf(client.receive()), 200);

  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n" +
              std::string(1000, 'a') + "\r\n1\r\na\r\n0\r\n\r\n");
  EXPECT_EQ(statusOf(client.receive()), 413);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST(ServerTest, ALargeRefusedBodyDoesNotDestroyItsAnswer) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3000000\r\n\r\n");
  // A reset, which closing with unread bytes would send, can overtake the answer on its way.
  std::atomic<bool> was_sent = false;
  std::thread sender([&] {
    was_sent = client.send(std::string(3'000'000, 'a'));
    client.finishSending();
  });
  const auto answer = client.receive();
  sender.join();
  EXPECT_EQ(statusOf(answer), 413);
  EXPECT_TRUE(was_sent);
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
}

TEST(ServerTest, ABodyInManyPartsArrivesWhole) {
  TestServer server;
  RawClient client(server.port());
  std::string body;
  for (int i = 0; body.size() < 900'000; ++i) body += std::to_string(i);
  // The next request begins in the same bytes as the end of this one.
  std::thread sender([&] { client.send(echo(body) + std::string(kHello)); });
  EXPECT_EQ(client.receive()->body, body);
  EXPECT_EQ(client.receive()->body, "hello");
  sender.join();
}

TEST(ServerTest, SaysContinueOnlyWhenItWillReadTheBody) {
  TestServer server;
  const std::string fields = "Host: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n";
  RawClient client(server.port());
  client.send("POST /echo HTTP/1.1\r\n" + fields);
  EXPECT_EQ(statusOf(client.receive()), 100);
  client.send("abc");
  EXPECT_EQ(client.receive()->body, "abc");
  // Who sends the body at once gets no 100.
  client.send("POST /echo HTTP/1.1\r\n" + fields + "abc");
  EXPECT_EQ(client.receive()->body, "abc");

  client.send("POST /nowhere HTTP/1.1\r\n" + fields);
  const auto refused = client.receive();
  EXPECT_EQ(statusOf(refused), 404);
  EXPECT_EQ(refused->header("Connection"), "close");
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);

  RawClient large(server.port());
  large.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n"
      "Expect: 100-continue\r\n\r\n");
  EXPECT_EQ(statusOf(large.receive()), 413);

  RawClient chunked(server.port());
  chunked.send(
      "POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
      "Expect: 100-Continue\r\n\r\n");
  EXPECT_EQ(statusOf(chunked.receive()), 100);
  chunked.send("2\r\nab\r\n0\r\n\r\n");
  EXPECT_EQ(chunked.receive()->body, "ab");

  RawClient old(server.port());
  old.send("POST /echo HTTP/1.0\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  old.send("abc");
  EXPECT_EQ(old.receive()->body, "abc");
}

TEST(ServerTest, UnroutedRequestsKeepTheConnectionIfTheirBodyIsThere) {
  TestServer server;
  RawClient client(server.port());
  client.send("POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc" +
              std::string(kHello));
  EXPECT_EQ(statusOf(client.receive()), 404);
  EXPECT_EQ(client.receive()->body, "hello");
  client.send("DELETE /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto refused = client.receive();
  EXPECT_EQ(statusOf(refused), 405);
  EXPECT_EQ(refused->header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_THAT(refused->body, HasSubstr(R"("allowed":"GET, HEAD, OPTIONS")"));
  client.send("OPTIONS /hello HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto options = client.receive();
  EXPECT_EQ(statusOf(options), 204);
  EXPECT_EQ(options->header("Allow"), "GET, HEAD, OPTIONS");
  EXPECT_EQ(options->header("Content-Length"), "");
}

TEST(ServerTest, AnEncodedSlashIsData) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /sessions/a%2Fb%3A%25%7B HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "a/b:%{");
}

TEST(ServerTest, AHandlerThatFailsCostsOnlyItsOwnRequest) {
  TestServer server;
  RawClient client(server.port());
  client.send("GET /throw HTTP/1.1\r\nHost: x\r\n\r\n" + std::string(kHello));
  const auto thrown = client.receive();
  EXPECT_EQ(statusOf(thrown), 500);
  EXPECT_THAT(thrown->body, HasSubstr(R"("code":"internal")"));
  EXPECT_THAT(thrown->body, HasSubstr(R"("outcome":"unknown")"));
  EXPECT_THAT(thrown->body, Not(HasSubstr("secret")));
  EXPECT_EQ(client.receive()->body, "hello");

  client.send("GET /throw?kind=error HTTP/1.1\r\nHost: x\r\n\r\n");
  const auto returned = client.receive();
  EXPECT_EQ(statusOf(returned), 412);
  EXPECT_THAT(returned->body, HasSubstr(R"("current_version":7)"));
}

// Deadlines. The server's are short; the test only waits for the end they lead to.
class DeadlineTest : public ::testing::Test {
 protected:
  static ServerOptions quick() {
    ServerOptions options;
    options.idle_timeout = options.header_timeout = options.body_timeout = milliseconds(80);
    options.write_timeout = milliseconds(150);
    options.linger_timeout = milliseconds(100);
    return options;
  }
};

TEST_F(DeadlineTest, AnIdleConnectionIsClosedWithoutAWord) {
  TestServer server(quick());
  RawClient client(server.port());
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_EQ(client.receiveAll(), "");
  RawClient used(server.port());
  used.send(kHello);
  EXPECT_EQ(used.receive()->body, "hello");
  EXPECT_EQ(used.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_EQ(used.receiveAll(), "");
}

TEST_F(DeadlineTest, AHeadThatDoesNotEndIs408) {
  TestServer server(quick());
  RawClient client(server.port());
  client.send("GET /hello HT");
  EXPECT_EQ(statusOf(client.receive()), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST_F(DeadlineTest, ATricklingHeadDoesNotBuyTime) {
  TestServer server(quick());
  RawClient client(server.port());
  client.send("GET /hello HTTP/1.1\r\nX: ");
  std::optional<RawAnswer> answer;
  std::thread trickle([&] {
    while (client.send("a")) std::this_thread::sleep_for(milliseconds(5));
  });
  answer = client.receive();
  EXPECT_EQ(statusOf(answer), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
  trickle.join();
}

TEST_F(DeadlineTest, HalfABodyIs408) {
  TestServer server(quick());
  RawClient client(server.port());
  client.send("POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_EQ(statusOf(client.receive()), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_EQ(server.executed, 0);
}

TEST_F(DeadlineTest, AClientThatNeverReadsIsDropped) {
  struct Watch final : Observer {
    void onConnectionClosed() override { closed.release(); }
    void onRequest(const Exchange& /*exchange*/) override {}
    std::counting_semaphore<10> closed{0};
  };
  Watch watch;
  TestServer server(quick(), 1, {.observer = &watch});
  RawClient client(server.port(), 4096);
  client.send("GET /big?size=20000000 HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_TRUE(watch.closed.try_acquire_for(RawClient::kPatience));
  EXPECT_LT(client.receiveAll().size(), 20'000'000U);
}

TEST_F(DeadlineTest, ASlowHandlerIsNotTheServersBusiness) {
  TestServer server(quick());
  RawClient client(server.port());
  client.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  server.held.acquire();
  EXPECT_EQ(client.waitForEnd(milliseconds(300)), RawClient::Ended::StillOpen);
  server.release();
  EXPECT_EQ(client.receive()->body, "released");
}

TEST_F(DeadlineTest, ABusyConnectionOutlivesItsParking) {
  ServerOptions options;
  options.heartbeat = milliseconds(40);  // the sweep runs every 10 ms
  TestServer server(std::move(options));
  RawClient client(server.port());
  client.send(kHello);
  EXPECT_EQ(client.receive()->body, "hello");
  // Long enough for the sweep to take the connection's buffers away.
  EXPECT_EQ(client.waitForEnd(milliseconds(1300)), RawClient::Ended::StillOpen);
  client.send(echo("still here"));
  EXPECT_EQ(client.receive()->body, "still here");
}

TEST(LimitTest, OneConnectionTooManyIsTold503) {
  ServerOptions options;
  options.max_connections = 2;
  options.linger_timeout = milliseconds(100);
  TestServer server(std::move(options));
  RawClient first(server.port());
  RawClient second(server.port());
  first.send(kHello);
  second.send(kHello);
  EXPECT_EQ(statusOf(first.receive()), 200);
  EXPECT_EQ(statusOf(second.receive()), 200);

  RawClient third(server.port());
  third.send(kHello);
  const auto refused = third.receive();
  EXPECT_EQ(statusOf(refused), 503);
  EXPECT_EQ(refused->header("Retry-After"), "1");
  EXPECT_NE(third.waitForEnd(), RawClient::Ended::StillOpen);

  first.close();
  while (server.server->connections() > 1) std::this_thread::sleep_for(milliseconds(1));
  RawClient fourth(server.port());
  fourth.send(kHello);
  EXPECT_EQ(statusOf(fourth.receive()), 200);
}

TEST(LimitTest, RunningOutOfDescriptorsIsSurvivedWithoutSpinning) {
  TestServer server;
  RawClient before(server.port());
  before.send(kHello);
  ASSERT_EQ(statusOf(before.receive()), 200);

  // UBSan looks at an object's type through a pipe the first time it meets it; what the server does
  // without descriptors it must have met before.
  const boost::system::error_code none_left(EMFILE, boost::system::system_category());
  ASSERT_NE(none_left, boost::asio::error::connection_aborted);
  log::warn("running out of descriptors", {{"reason", none_left.message()}});

  RawClient waiting;  // has its descriptor; the server will find none for the other end
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  rlimit none = limit;
  none.rlim_cur = 1;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  waiting.connect(server.port());
  waiting.send(kHello);
  rusage used_before{};
  ::getrusage(RUSAGE_SELF, &used_before);
  const auto ended = waiting.waitForEnd(milliseconds(400));
  rusage used_after{};
  ::getrusage(RUSAGE_SELF, &used_after);
  before.send(kHello);
  const auto meanwhile = before.receive();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);

  EXPECT_EQ(ended, RawClient::Ended::StillOpen);
  EXPECT_EQ(statusOf(meanwhile), 200);
  const auto burnt_ms = (used_after.ru_utime.tv_sec - used_before.ru_utime.tv_sec +
                         used_after.ru_stime.tv_sec - used_before.ru_stime.tv_sec) *
                            1000 +
                        (used_after.ru_utime.tv_usec - used_before.ru_utime.tv_usec +
                         used_after.ru_stime.tv_usec - used_before.ru_stime.tv_usec) /
                            1000;
  EXPECT_LT(burnt_ms, 100);
  EXPECT_EQ(statusOf(waiting.receive()), 200);
}

TEST(StopTest, IdleConnectionsAreClosedAndRunningRequestsFinish) {
  TestServer server({}, 2);
  RawClient idle(server.port());
  idle.send(kHello);
  ASSERT_EQ(statusOf(idle.receive()), 200);
  RawClient fresh(server.port());
  RawClient running(server.port());
  running.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  server.held.acquire();

  auto stopped = server.beginStop(std::chrono::seconds(20));
  EXPECT_EQ(idle.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_NE(fresh.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_FALSE(RawClient(server.port()).isConnected());
  server.release();
  const auto answer = running.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "released");
  EXPECT_EQ(answer->header("Connection"), "close");
  stopped.get();
  EXPECT_EQ(server.server->connections(), 0U);
}

TEST(StopTest, WhatDoesNotFinishInTimeIsCutOff) {
  TestServer server;
  RawClient running(server.port());
  running.send("GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
  server.held.acquire();
  RawClient half(server.port());
  half.send("POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  RawClient streaming(server.port());
  streaming.send("GET /events HTTP/1.1\r\nHost: x\r\n\r\n");
  streaming.receiveUntil("id: 3\n");

  server.stop(milliseconds(50));
  EXPECT_EQ(server.server->connections(), 0U);
  server.cancelled.acquire();  // its handler knows
  EXPECT_NE(running.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_NE(half.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_NE(streaming.waitForEnd(), RawClient::Ended::StillOpen);
}

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

TEST(HookTest, TheObserverSeesEveryRequestAndConnectionOnce) {
  struct Ledger final : Observer {
    void onConnectionOpened() override { ++opened; }
    void onConnectionClosed() override { ++closed; }
    void onRequest(const Exchange& exchange) override {
      const std::lock_guard lock(mutex);
      lines.push_back(std::string(methodName(exchange.method)) + " " + std::string(exchange.route) +
                      " " + std::to_string(exchange.status) + " " +
                      std::to_string(exchange.bytes_in));
    }
    std::atomic<int> opened = 0;
    std::atomic<int> closed = 0;
    std::mutex mutex;
    std::vector<std::string> lines;
  };
  Ledger ledger;
  {
    TestServer server({}, 1, {.observer = &ledger});
    RawClient client(server.port());
    client.send("GET /sessions/a HTTP/1.1\r\nHost: x\r\n\r\n" + echo("abc") +
                "GET /none HTTP/1.1\r\nHost: x\r\n\r\nGET /bad HTTP/1.1\r\n\r\n");
    client.receiveAll();
  }
  EXPECT_EQ(ledger.opened, 1);
  EXPECT_EQ(ledger.closed, 1);
  EXPECT_THAT(ledger.lines,
              ::testing::ElementsAre("GET /sessions/{key:text} 200 37", "POST /echo 200 54",
                                     "GET  404 31", "GET  400 21"));
}

TEST(ThreadTest, ConnectionsAreDealtOutEvenlyAndAllAnswered) {
  TestServer server({}, 2);
  std::vector<std::thread> clients;
  std::atomic<int> answered = 0;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&] {
      RawClient client(server.port());
      for (int n = 0; n < 200; ++n) {
        client.send(echo(std::to_string(n)) + std::string(kHello));
        if (client.receive()->body == std::to_string(n)) ++answered;
        if (client.receive()->body == "hello") ++answered;
      }
    });
  }
  for (auto& client : clients) client.join();
  EXPECT_EQ(answered, 8 * 400);
}

TEST(ThreadTest, ClientsThatComeAndGoWhileTheServerStopsHarmNothing) {
  for (int round = 0; round < 10; ++round) {
    TestServer server({}, 2);
    std::atomic<bool> is_over = false;
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        while (!is_over) {
          RawClient client(server.port());
          if (!client.isConnected()) return;
          client.send(kHello);
          client.receive();
        }
      });
    }
    server.held.try_acquire_for(milliseconds(5));
    server.stop(std::chrono::seconds(5));
    is_over = true;
    for (auto& client : clients) client.join();
    EXPECT_EQ(server.server->connections(), 0U);
  }
}

TEST(OpenTest, SaysWhyItCannotListen) {
  Threads threads(1);
  const Router router;
  ServerOptions named;
  named.address = "localhost";
  EXPECT_EQ(Server::open(std::move(named), threads, router).error().code(), Code::InvalidArgument);

  auto first = Server::open({}, threads, router);
  ASSERT_TRUE(first);
  ServerOptions taken;
  taken.port = (*first)->port();
  EXPECT_EQ(Server::open(std::move(taken), threads, router).error().code(), Code::Unavailable);

  ServerOptions tls;
  tls.tls = std::make_unique<TlsFiles>(TlsFiles{"/nowhere.pem", "/nowhere.key"});
  EXPECT_EQ(Server::open(std::move(tls), threads, router).error().code(), Code::InvalidArgument);
}

}  // namespace
}  // namespace nimbus::http
