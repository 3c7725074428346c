#include "client/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::client {
namespace {

TEST(UrlTest, ReadsSchemeHostPortAndPrefix) {
  const auto url = parseUrl("https://example.org/behind/a/proxy/");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->tls);
  EXPECT_EQ(url->host, "example.org");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->prefix, "/behind/a/proxy");
  EXPECT_EQ(url->text(), "https://example.org:443/behind/a/proxy");
}

TEST(UrlTest, AHostAndAPortAreEnough) {
  const auto url = parseUrl("127.0.0.1:8787");
  ASSERT_TRUE(url);
  EXPECT_FALSE(url->tls);
  EXPECT_EQ(url->text(), "http://127.0.0.1:8787");
  EXPECT_EQ(parseUrl("http://[::1]:9000/")->authority(), "[::1]:9000");
}

TEST(UrlTest, KnowsThisMachine) {
  for (const char* here : {"localhost:1", "127.0.0.1:1", "127.9.9.9:1", "[::1]:1"}) {
    EXPECT_TRUE(parseUrl(here)->isLoopback()) << here;
  }
  for (const char* there : {"10.0.0.1:1", "localhost.example.org:1", "127.0.0.1.example.org"}) {
    EXPECT_FALSE(parseUrl(there)->isLoopback()) << there;
  }
}

TEST(UrlTest, RefusesWhatIsNone) {
  for (const char* text : {"", "http://", "ftp://a", "http://a:", "http://a:0", "http://a:70000",
                           "http://a:b", "http://user@a", "http://a?b", "http://a b", "http://[::1",
                           "http://[::1]x", "http://a\n"}) {
    EXPECT_FALSE(parseUrl(text)) << text;
  }
}

TEST(UrlTest, EncodesWhateverMeansSomething) {
  EXPECT_EQ(encoded("a-b.c_d~1"), "a-b.c_d~1");
  EXPECT_EQ(encoded("a/b?c%d e\xC3\xA9"), "a%2Fb%3Fc%25d%20e%C3%A9");
}

}  // namespace
}  // namespace nimbus::client
