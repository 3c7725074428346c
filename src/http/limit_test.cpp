#include "base/log.h"
#include "http/testing/requests.h"
#include "http/testing/test_server.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace nimbus::http {
namespace {

TEST(LimitTest, OneConnectionTooManyIsTold503) {
  ServerOptions options;
  options.max_connections = 2;
  Watch watch;
  TestServer server(std::move(options), 1, {.observer = &watch});
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

  third.close();
  first.close();
  watch.closed.acquire();
  watch.closed.acquire();
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
  // Others are served meanwhile; when they were, the server has also seen whom it cannot accept.
  for (int i = 0; i < 20; ++i) {
    before.send(kHello);
    EXPECT_EQ(statusOf(before.receive()), 200);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);

  // Who would try again and again would have it by now.
  for (int i = 0; i < 20; ++i) {
    before.send(kHello);
    EXPECT_EQ(statusOf(before.receive()), 200);
  }
  EXPECT_EQ(server.server->connections(), 1U);
  server.pass(std::chrono::milliseconds(0));
  EXPECT_EQ(statusOf(waiting.receive()), 200);
}

}  // namespace
}  // namespace nimbus::http
