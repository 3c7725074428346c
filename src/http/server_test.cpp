#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

namespace nimbus::http {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

TEST(ServerTest, ARouteMayTakeLongerBodiesThanTheRest) {
  ServerOptions options;
  options.max_body_bytes = 1000;
  TestServer server(std::move(options));
  RawClient client(server.port());
  const auto post = [](std::string_view path, std::size_t size) {
    return fmt::format("POST {} HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n{}", path, size,
                       std::string(size, 'a'));
  };
  client.send(post("/echo-long", 2000));
  EXPECT_EQ(statusOf(client.receive()), 200);
  client.send("POST /echo-long HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n7d0\r\n" +
              std::string(2000, 'a') + "\r\n0\r\n\r\n");
  EXPECT_EQ(statusOf(client.receive()), 200);
  client.send(post("/echo-long", 2001));
  EXPECT_EQ(statusOf(client.receive()), 413);
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
