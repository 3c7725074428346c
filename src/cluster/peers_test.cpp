#include "cluster/peers.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/streambuf.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/asio/write.hpp>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>

namespace nimbus::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// A node that answers each request with what the test says; an empty text closes the connection.
class OtherNode {
 public:
  explicit OtherNode(std::function<std::string(int)> answer)
      : answer_(std::move(answer)), thread_([this] { serve(); }) {}
  ~OtherNode() {
    // What waits in accept() or for a request is woken by this.
    is_ending_ = true;
    ::shutdown(acceptor_.native_handle(), SHUT_RDWR);
    if (const int open = open_.load(); open >= 0) ::shutdown(open, SHUT_RDWR);
    thread_.join();
  }
  std::string address() const {
    return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
  }
  int connections() const { return connections_.load(); }

 private:
  void serve() {
    while (true) {
      boost::system::error_code failure;
      tcp::socket socket(io_);
      acceptor_.accept(socket, failure);
      if (failure) return;
      ++connections_;
      open_ = socket.native_handle();
      if (!is_ending_) talk(socket);
      open_ = -1;
    }
  }
  void talk(tcp::socket& socket) {
    boost::system::error_code failure;
    while (true) {
      asio::streambuf request;
      asio::read_until(socket, request, "\r\n\r\n", failure);
      if (failure) return;
      const std::string text = answer_(++requests_);
      if (text.empty()) return;
      asio::write(socket, asio::buffer(text), failure);
    }
  }

  asio::io_context io_;
  tcp::acceptor acceptor_{io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)};
  std::function<std::string(int)> answer_;
  std::atomic<int> connections_ = 0;
  std::atomic<int> open_ = -1;  // descriptor of the connection that is served
  std::atomic<bool> is_ending_ = false;
  int requests_ = 0;
  std::thread thread_;
};

constexpr const char* kRequest = "GET / HTTP/1.1\r\nHost: node\r\n\r\n";

class PeersTest : public ::testing::Test {
 protected:
  Result<PeerAnswer> send(const std::string& address) {
    auto answer = asio::co_spawn(io_, peers_.send(address, kRequest), asio::use_future);
    io_.restart();
    while (answer.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
    return answer.get();
  }

  asio::io_context io_;
  Peers peers_;
};

TEST_F(PeersTest, AnAnswerIsReadWholeAndTheConnectionKept) {
  const std::string body(100'000, 'x');
  OtherNode node([&](int) {
    return "HTTP/1.1 201 Created\r\nNimbus-Session-Seq: 7\r\nContent-Length: 100000\r\n\r\n" + body;
  });
  for (int i = 0; i < 3; ++i) {
    const auto answer = send(node.address());
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, 201);
    EXPECT_EQ(answer->header("nimbus-session-seq"), "7");
    EXPECT_EQ(answer->header("nothing"), "");
    EXPECT_EQ(answer->body, body);
  }
  EXPECT_EQ(node.connections(), 1);
  EXPECT_EQ(peers_.connections(), 1U);
  peers_.dropIdle(node.address());
  io_.restart();
  io_.poll();
  EXPECT_EQ(peers_.connections(), 0U);
}

TEST_F(PeersTest, AConnectionThatTheOtherWillCloseIsNotKept) {
  OtherNode node(
      [](int) { return std::string("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"); });
  ASSERT_TRUE(send(node.address()));
  EXPECT_EQ(peers_.connections(), 0U);
}

TEST_F(PeersTest, WhereNobodyListensNothingHappened) {
  std::string address;
  {
    OtherNode node([](int) { return std::string(); });
    address = node.address();
  }
  const auto refused = send(address);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unavailable);
  EXPECT_EQ(refused.error().outcome(), Outcome::NotApplied);
  EXPECT_EQ(send("nowhere").error().outcome(), Outcome::NotApplied);
}

TEST_F(PeersTest, WhoWasAskedAndDoesNotAnswerMayHaveDoneIt) {
  OtherNode node([](int) { return std::string(); });
  const auto broken = send(node.address());
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().code(), Code::Unavailable);
  EXPECT_EQ(broken.error().outcome(), Outcome::Unknown);
}

TEST_F(PeersTest, AConnectionThatWasClosedMeanwhileIsNotUsed) {
  OtherNode node([](int request) {
    return request == 2 ? std::string() : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
  });
  ASSERT_TRUE(send(node.address()));
  ASSERT_FALSE(send(node.address())) << "it closes";
  EXPECT_TRUE(send(node.address())) << "over a new one";
  EXPECT_EQ(node.connections(), 2);
}

TEST_F(PeersTest, WhoWaitsForANodeThatIsGoneIsTold) {
  std::promise<void> asked;
  std::promise<void> done;
  OtherNode node([&](int) {
    asked.set_value();
    done.get_future().wait();
    return std::string();
  });
  std::thread dropper([&] {
    asked.get_future().wait();
    peers_.drop(node.address());
  });
  const auto answer = send(node.address());
  dropper.join();
  done.set_value();
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().outcome(), Outcome::Unknown);
  EXPECT_EQ(peers_.connections(), 0U);
}

}  // namespace
}  // namespace nimbus::cluster
