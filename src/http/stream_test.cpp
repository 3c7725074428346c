#include "http/testing/test_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nimbus::http {
namespace {

using ::testing::HasSubstr;

std::string events(const std::string& query, const std::string& version = "1.1") {
  return "GET /events" + query + " HTTP/" + version + "\r\nHost: x\r\n\r\n";
}

TEST(EventStreamTest, SendsEventsAndEnds) {
  TestServer server;
  RawClient client(server.port());
  client.send(events("?count=2"));
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->header("Content-Type"), "text/event-stream");
  EXPECT_EQ(answer->header("Connection"), "close");
  EXPECT_EQ(answer->header("Content-Length"), "");
  EXPECT_EQ(answer->body, "id: 1\nevent: tick\ndata: eeeee\n\nid: 2\nevent: tick\ndata: eeeee\n\n");
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
}

TEST(EventStreamTest, Http10GetsThemWithoutChunks) {
  TestServer server;
  RawClient client(server.port());
  client.send(events("?count=1", "1.0"));
  const std::string all = client.receiveAll();
  EXPECT_THAT(all, ::testing::EndsWith("\r\n\r\nid: 1\nevent: tick\ndata: eeeee\n\n"));
}

TEST(EventStreamTest, HeadGetsNoEvents) {
  TestServer server;
  RawClient client(server.port());
  client.send("HEAD /events HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive(true)->header("Content-Type"), "text/event-stream");
  EXPECT_EQ(client.waitForEnd(), RawClient::Ended::Closed);
  EXPECT_EQ(client.receiveAll(), "");
}

TEST(EventStreamTest, TheSenderLearnsThatTheClientLeft) {
  Watch watch;
  TestServer server({}, 1, {.observer = &watch});
  RawClient client(server.port());
  client.send(events(""));
  client.receiveUntil("id: 3\n");
  client.close();
  EXPECT_TRUE(server.stream_ended.try_acquire_for(RawClient::kPatience));
  EXPECT_TRUE(watch.closed.try_acquire_for(RawClient::kPatience));
}

TEST(EventStreamTest, ASilentStreamIsKeptAliveByComments) {
  TestServer server;
  RawClient client(server.port());
  client.send(events(""));
  client.receiveUntil("id: 3\n");
  server.pass(ServerOptions().heartbeat);
  client.receiveUntil(":\n\n");
  server.pass(ServerOptions().heartbeat);
  EXPECT_EQ(client.receiveUntil(":\n\n"), "\r\n3\r\n:\n\n");
}

TEST(EventStreamTest, AClientThatDoesNotReadHoldsTheSenderBackAndIsDropped) {
  TestServer server;
  RawClient client(server.port(), 4096);
  client.send(events("?count=100000&size=1000"));
  client.receiveUntil("\r\n\r\n");
  // As often as the sockets between them still took a byte.
  while (!server.stream_ended.try_acquire()) server.pass(ServerOptions().write_timeout);
  // All that was ever produced is what the sockets and one buffer hold.
  EXPECT_LT(client.receiveAll().size(), 20'000'000U);
}

TEST(EventStreamTest, ASlowReaderGetsEverythingInOrder) {
  TestServer server;
  RawClient client(server.port(), 4096);
  client.send(events("?count=3000&size=1000"));
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  std::size_t at = 0;
  for (int i = 1; i <= 3000; ++i) {
    at = answer->body.find("id: " + std::to_string(i) + "\n", at);
    ASSERT_NE(at, std::string::npos) << i;
  }
}

TEST(EventStreamTest, StopEndsStreamsProperly) {
  TestServer server;
  RawClient client(server.port());
  client.send(events(""));
  client.receiveUntil("id: 3\n");
  server.stop(std::chrono::seconds(20));
  EXPECT_TRUE(server.stream_ended.try_acquire());
  EXPECT_THAT(client.receiveAll(), ::testing::EndsWith("0\r\n\r\n"));
}

TEST(EventStreamTest, LineBreaksCannotForgeFields) {
  boost::asio::io_context io;
  TestServer server;
  auto stream = std::make_shared<EventStream>(server.threads().executor(0));
  // Only kept by the handler, without a producer: whoever has it sends.
  RawClient client(server.port());
  std::promise<void> sent;
  boost::asio::post(server.threads().context(0), [&] {
    EXPECT_TRUE(stream->trySend({.data = "a\nid: 9\r\nb\rc", .id = "1\nevent: x", .type = "t"}));
    stream->end();
    EXPECT_FALSE(stream->trySend({.data = "late"}));
    sent.set_value();
  });
  sent.get_future().get();
  server.kept_stream = stream;
  client.send("GET /kept HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_EQ(client.receive()->body, "id: 1\nevent: t\ndata: a\ndata: id: 9\ndata: b\ndata: c\n\n");
}

}  // namespace
}  // namespace nimbus::http
