#include "server/listen_address.h"

#include <gtest/gtest.h>

namespace nimbus::server {
namespace {

TEST(ListenAddressTest, TakesAddressesWithPorts) {
  const auto v4 = parseListenAddress("127.0.0.1:8787");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->address, "127.0.0.1");
  EXPECT_EQ(v4->port, 8787);

  const auto v6 = parseListenAddress("[::1]:0");
  ASSERT_TRUE(v6);
  EXPECT_EQ(v6->address, "::1");
  EXPECT_EQ(v6->port, 0);

  EXPECT_EQ(parseListenAddress("localhost:1")->address, "127.0.0.1");
}

TEST(ListenAddressTest, KnowsWhatIsLoopback) {
  for (const char* text :
       {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "[::ffff:127.0.0.1]:1"}) {
    EXPECT_TRUE(parseListenAddress(text)->is_loopback) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"}) {
    EXPECT_FALSE(parseListenAddress(text)->is_loopback) << text;
  }
}

TEST(ListenAddressTest, RefusesWhatItCannotUse) {
  for (const char* text :
       {"", ":", ":8787", "8787", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:-1",
        "127.0.0.1:65536", "127.0.0.1:70000", "127.0.0.1: 80", "::1", "::1:80", "[::1]",
        "[127.0.0.1]:80", "example.com:80", "300.0.0.1:80", "[::1:80", "[]:80"}) {
    EXPECT_FALSE(parseListenAddress(text)) << text;
  }
}

TEST(ListenAddressTest, UrlsHaveBracketsAroundIpv6) {
  EXPECT_EQ(hostAndPort("127.0.0.1", 80), "127.0.0.1:80");
  EXPECT_EQ(hostAndPort("::1", 80), "[::1]:80");
}

}  // namespace
}  // namespace nimbus::server
