#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace nimbus::http {
namespace {

using std::chrono::milliseconds;

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

  server.stop(milliseconds(0));
  EXPECT_EQ(server.server->connections(), 0U);
  server.cancelled.acquire();  // its handler knows
  EXPECT_NE(running.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_NE(half.waitForEnd(), RawClient::Ended::StillOpen);
  EXPECT_NE(streaming.waitForEnd(), RawClient::Ended::StillOpen);
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
    std::counting_semaphore<> answered{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 4; ++i) {
      clients.emplace_back([&] {
        while (!is_over) {
          RawClient client(server.port());
          if (!client.isConnected()) return;
          client.send(kHello);
          client.receive();
          answered.release();
        }
      });
    }
    for (int i = 0; i < 20; ++i) answered.acquire();
    server.stop(std::chrono::seconds(5));
    is_over = true;
    for (auto& client : clients) client.join();
    EXPECT_EQ(server.server->connections(), 0U);
  }
}

}  // namespace
}  // namespace nimbus::http
