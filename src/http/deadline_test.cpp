// What ends when its time is over. The clock stands still but for pass(), so nothing here waits,
// and a client whose answer has come is known to be where that answer leaves it.
#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <gtest/gtest.h>

namespace nimbus::http {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kMoment{1};
const ServerOptions kDefaults;

// The answer to the first part has come, so the rest, which came with it, has been read.
void sendBehindHello(RawClient& client, std::string_view bytes) {
  client.send(std::string(kHello) + std::string(bytes));
  ASSERT_EQ(statusOf(client.receive()), 200);
}

// The server has begun to wait for the body.
void beginBody(RawClient& client, std::string_view path, std::size_t length) {
  client.send("POST " + std::string(path) + " HTTP/1.1\r\nHost: x\r\nContent-Length: " +
              std::to_string(length) + "\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_EQ(statusOf(client.receive()), 100);
}

TEST(DeadlineTest, AnIdleConnectionIsClosedWithoutAWord) {
  Watch watch;
  TestServer server({}, 1, {.observer = &watch});
  RawClient fresh(server.port());
  watch.opened.acquire();
  RawClient used(server.port());
  used.send(kHello);
  EXPECT_EQ(statusOf(used.receive()), 200);

  server.pass(kDefaults.idle_timeout - kMoment);
  used.send(kHello);
  EXPECT_EQ(statusOf(used.receive()), 200);
  EXPECT_EQ(server.server->connections(), 2U);
  server.pass(kMoment);
  EXPECT_EQ(fresh.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_EQ(fresh.receiveAll(), "");

  server.pass(kDefaults.idle_timeout - kMoment);
  EXPECT_EQ(used.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_EQ(used.receiveAll(), "");
}

TEST(DeadlineTest, AHeadThatDoesNotEndIs408) {
  TestServer server;
  RawClient client(server.port());
  sendBehindHello(client, "GET /hello HT");
  server.pass(kDefaults.header_timeout);
  EXPECT_EQ(statusOf(client.receive()), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST(DeadlineTest, AHeadMayTakeItsWholeTime) {
  TestServer server;
  RawClient client(server.port());
  sendBehindHello(client, "GET /hello HT");
  server.pass(kDefaults.header_timeout - kMoment);
  client.send("TP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(statusOf(client.receive()), 200);
}

TEST(DeadlineTest, ATricklingHeadDoesNotBuyTime) {
  TestServer server;
  RawClient client(server.port());
  sendBehindHello(client, "GET /hello HTTP/1.1\r\nX: ");
  for (int i = 0; i < 9; ++i) {
    client.send("a");
    server.pass(kDefaults.header_timeout / 10);
  }
  server.pass(kDefaults.header_timeout / 10);
  EXPECT_EQ(statusOf(client.receive()), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST(DeadlineTest, HalfABodyIs408) {
  TestServer server;
  RawClient client(server.port());
  sendBehindHello(client, "POST /count HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc");
  server.pass(kDefaults.body_timeout);
  EXPECT_EQ(statusOf(client.receive()), 408);
  EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_EQ(server.executed, 0);
}

TEST(DeadlineTest, ATricklingBodyHasATimeOfItsOwn) {
  ServerOptions options;
  options.body_timeout = hours(1);  // never reached here
  options.body_total_timeout = seconds(25);
  TestServer server(std::move(options));
  RawClient slow(server.port());
  beginBody(slow, "/echo", 10);
  RawClient just_in_time(server.port());
  beginBody(just_in_time, "/echo", 3);
  for (const char* byte : {"a", "b"}) {
    slow.send(byte);
    just_in_time.send(byte);
    server.pass(seconds(12));
  }
  just_in_time.send("c");
  EXPECT_EQ(just_in_time.receive()->body, "abc");
  server.pass(seconds(1));
  EXPECT_EQ(statusOf(slow.receive()), 408);
  EXPECT_NE(slow.waitForEnd(), RawClient::Ended::StillOpen);
}

TEST(DeadlineTest, AClientThatNeverReadsIsDropped) {
  Watch watch;
  TestServer server({}, 1, {.observer = &watch});
  RawClient client(server.port(), 4096);
  client.send("GET /big?size=20000000 HTTP/1.1\r\nHost: x\r\n\r\n");
  client.receiveUntil("\r\n\r\n");
  // As often as the sockets between them still took a byte.
  while (!watch.closed.try_acquire()) server.pass(kDefaults.write_timeout);
  EXPECT_LT(client.receiveAll().size(), 20'000'000U);
}

TEST(DeadlineTest, ASlowHandlerIsNotTheServersBusiness) {
  TestServer server;
  RawClient client(server.port());
  client.send(kHeld);
  server.held.acquire();
  server.pass(hours(24));
  server.release();
  EXPECT_EQ(client.receive()->body, "released");
}

TEST(DeadlineTest, ASilentConnectionGivesItsBuffersAwayAndIsServedAgain) {
  TestServer server;
  RawClient client(server.port());
  for (int i = 0; i < 3; ++i) {
    client.send(echo("still here"));
    EXPECT_EQ(client.receive()->body, "still here");
    server.pass(seconds(2));
  }
}

}  // namespace
}  // namespace nimbus::http
