#include "client/client.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nimbus::client {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Answers on one connection after another with what it was given, byte for byte, and keeps the
// requests' heads.
class Script {
 public:
  // One connection: the answers it gives before it closes.
  using Answers = std::vector<std::string>;

  explicit Script(std::vector<Answers> connections)
      : acceptor_(context_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)),
        thread_([this, connections = std::move(connections)] { play(connections); }) {}
  ~Script() { thread_.join(); }
  Script(const Script&) = delete;
  Script& operator=(const Script&) = delete;

  Url url() const {
    return *parseUrl(fmt::format("http://127.0.0.1:{}", acceptor_.local_endpoint().port()));
  }
  const std::vector<std::string>& heads() const { return heads_; }

 private:
  void play(const std::vector<Answers>& connections) {
    for (const Answers& answers : connections) {
      tcp::socket socket = acceptor_.accept();
      std::string read;
      for (const std::string& answer : answers) {
        boost::system::error_code failed;
        const std::size_t end =
            asio::read_until(socket, asio::dynamic_buffer(read), "\r\n\r\n", failed);
        if (failed) break;
        heads_.push_back(read.substr(0, end));
        read.erase(0, end);
        asio::write(socket, asio::buffer(answer), failed);
      }
    }
  }

  asio::io_context context_;
  tcp::acceptor acceptor_;
  std::vector<std::string> heads_;  // of the thread, until it is joined or has answered
  std::thread thread_;
};

std::string answerOf(std::string_view body, std::string_view more = "") {
  return fmt::format("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n{}\r\n{}", body.size(), more, body);
}

TEST(ClientTest, SendsTheKeyAndReadsTheAnswer) {
  Script script({{answerOf("{}", "Nimbus-Node: n\r\n")}});
  Client client(script.url(), {.key = "nk_1"});
  Request request;
  request.target = "/api/v1/functions?limit=1";
  const auto answer = client.send(request);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "{}");
  EXPECT_EQ(answer->header("nimbus-node"), "n");
  EXPECT_THAT(script.heads().at(0), HasSubstr("GET /api/v1/functions?limit=1 HTTP/1.1\r\n"));
  EXPECT_THAT(script.heads().at(0), HasSubstr("Authorization: Bearer nk_1\r\n"));
}

TEST(ClientTest, KeepsTheConnection) {
  Script script({{answerOf("1"), answerOf("2")}});
  Client client(script.url(), {});
  EXPECT_EQ(client.send({})->body, "1");
  EXPECT_EQ(client.send({})->body, "2");
}

TEST(ClientTest, AskingAgainOnAClosedConnectionIsNotNoticed) {
  Script script({{answerOf("1")}, {answerOf("2")}});
  Client client(script.url(), {});
  EXPECT_EQ(client.send({})->body, "1");
  EXPECT_EQ(client.send({})->body, "2");
}

TEST(ClientTest, APostIsNotSentTwice) {
  Script script({{answerOf("1")}});
  Client client(script.url(), {});
  Request post;
  post.method = "POST";
  EXPECT_EQ(client.send(post)->body, "1");
  const auto second = client.send(post);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().outcome(), Outcome::Unknown);
}

TEST(ClientTest, ReadsAStreamOfEvents) {
  const std::string head =
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
  Script script({{head + "9\r\ndata: 1\n\n\r\n9\r\ndata: 2\n\n\r\n0\r\n\r\n"}});
  Client client(script.url(), {});
  std::vector<std::string> seen;
  const auto ended = client.follow({}, [&](const Event& event) {
    seen.push_back(event.data);
    return true;
  });
  ASSERT_TRUE(ended);
  EXPECT_THAT(seen, ElementsAre("1", "2"));
}

TEST(ClientTest, AnAnswerInPlaceOfAStreamIsReturned) {
  Script script({{"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\ngone"}});
  Client client(script.url(), {});
  const auto answer = client.follow({}, [](const Event&) { return true; });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 404);
  EXPECT_EQ(answer->body, "gone");
}

TEST(ClientTest, AServerThatIsNotThereIsUnavailable) {
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const auto port = acceptor.local_endpoint().port();
  acceptor.close();
  Client client(*parseUrl(fmt::format("127.0.0.1:{}", port)), {});
  const auto answer = client.send({});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::Unavailable);
  EXPECT_THAT(answer.error().message(), HasSubstr("refused"));
}

TEST(ClientTest, AServerThatSaysNothingIsATimeout) {
  asio::io_context context;
  tcp::acceptor acceptor(context, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  Client client(*parseUrl(fmt::format("127.0.0.1:{}", acceptor.local_endpoint().port())), {});
  Request request;
  request.timeout = Millis(50);
  const auto answer = client.send(request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::Timeout);
}

}  // namespace
}  // namespace nimbus::client
