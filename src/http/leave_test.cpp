// Clients that leave, or send ahead, while a handler runs. pass() has the server look: from then on
// it watches the client.
#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

namespace nimbus::http {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

class LastStatus final : public Watch {
 public:
  void onRequest(const Exchange& exchange) override { status = exchange.status; }

  std::atomic<int> status = 0;
};

class LeaveTest : public ::testing::Test {
 protected:
  // Returns when the handler waits, and its client is watched.
  void hold(RawClient& client) {
    client.send(kHeld);
    server_.held.acquire();
    server_.pass(seconds(1));
  }
  bool isCancelled() { return server_.cancelled.try_acquire_for(RawClient::kPatience); }
  bool isClosed() { return observer_.closed.try_acquire_for(RawClient::kPatience); }

  LastStatus observer_;
  TestServer server_{{}, 1, {.observer = &observer_}};
};

TEST_F(LeaveTest, AHandlerWhoseClientClosesIsCancelled) {
  RawClient client(server_.port());
  hold(client);
  client.close();
  EXPECT_TRUE(isCancelled());
  EXPECT_TRUE(isClosed());
  EXPECT_EQ(observer_.status, 499);
}

TEST_F(LeaveTest, ItIsNoticedBehindWhatWasSentAhead) {
  RawClient client(server_.port());
  hold(client);
  client.send(kHello);
  client.send(kHello);
  client.close();
  EXPECT_TRUE(isCancelled());
  EXPECT_TRUE(isClosed());
}

TEST_F(LeaveTest, WhoOnlyClosesItsOwnEndIsToldWhatBecameOfIt) {
  RawClient client(server_.port());
  hold(client);
  client.finishSending();
  EXPECT_TRUE(isCancelled());
  const auto answer = client.receive();
  EXPECT_EQ(statusOf(answer), 499);
  EXPECT_EQ(answer->header("Connection"), "close");
  EXPECT_THAT(answer->body, HasSubstr("the client did not wait"));
}

TEST_F(LeaveTest, AClientThatStaysIsAnsweredAndServedOn) {
  RawClient client(server_.port());
  hold(client);
  server_.pass(seconds(1));
  server_.release();
  EXPECT_EQ(client.receive()->body, "released");
  client.send(kHello);
  EXPECT_EQ(client.receive()->body, "hello");
}

TEST_F(LeaveTest, WhatIsSentAheadIsAnsweredInOrder) {
  RawClient client(server_.port());
  hold(client);
  for (int i = 0; i < 10; ++i) {
    client.send(echo("ahead " + std::to_string(i)));
    server_.pass(milliseconds(0));  // has most likely read it
  }
  server_.release();
  EXPECT_EQ(client.receive()->body, "released");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.receive()->body, "ahead " + std::to_string(i));
}

TEST_F(LeaveTest, WhatIsSentAheadOfABodyInPartsIsKeptToo) {
  RawClient client(server_.port());
  // The body comes apart from its head, so what follows it stands in another buffer.
  client.send("GET /held HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  ASSERT_EQ(statusOf(client.receive()), 100);
  client.send("abc" + echo("one"));
  server_.held.acquire();
  server_.pass(seconds(1));
  client.send(echo("two"));
  server_.pass(seconds(1));
  server_.release();
  EXPECT_EQ(client.receive()->body, "released");
  EXPECT_EQ(client.receive()->body, "one");
  EXPECT_EQ(client.receive()->body, "two");
}

TEST_F(LeaveTest, MoreThanTheBufferHoldsWaitsOutside) {
  RawClient client(server_.port());
  hold(client);
  const std::string body(10'000, 'b');
  for (int i = 0; i < 10; ++i) {
    client.send(echo(body));
    server_.pass(seconds(1));
  }
  server_.release();
  EXPECT_EQ(client.receive()->body, "released");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(client.receive()->body, body);
}

TEST_F(LeaveTest, TheServerMayStopMeanwhile) {
  RawClient client(server_.port());
  hold(client);
  RawClient another(server_.port());
  hold(another);
  another.send(kHello);
  auto stopped = server_.beginStop(milliseconds(0));
  EXPECT_TRUE(isCancelled());
  EXPECT_TRUE(isCancelled());
  stopped.get();
  EXPECT_EQ(server_.server->connections(), 0U);
}

}  // namespace
}  // namespace nimbus::http
