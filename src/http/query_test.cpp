#include "http/query.h"

#include "http/percent.h"

#include <gtest/gtest.h>

namespace nimbus::http {
namespace {

TEST(QueryTest, DecodesNamesAndValues) {
  const Query query("a=1&b+c=two+words&d=%C3%A9%26&e&f=&=x");
  EXPECT_EQ(*query.text("a"), "1");
  EXPECT_EQ(*query.text("b c"), "two words");
  EXPECT_EQ(*query.text("d"), "\xC3\xA9&");
  EXPECT_EQ(*query.text("e"), "");
  EXPECT_EQ(*query.text("f"), "");
  EXPECT_EQ(*query.text(""), "x");
  EXPECT_EQ(*query.text("g"), std::nullopt);
}

TEST(QueryTest, RefusesAParameterGivenTwice) {
  const Query query("a=1&b=2&%61=3");
  const auto twice = query.text("a");
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code(), Code::InvalidArgument);
  EXPECT_EQ(*query.text("b"), "2");
}

TEST(QueryTest, LimitIsANumberFrom1To1000) {
  EXPECT_EQ(*Query("").limit(20), 20U);
  EXPECT_EQ(*Query("limit=1").limit(20), 1U);
  EXPECT_EQ(*Query("limit=1000").limit(20), 1000U);
  for (const char* bad : {"limit=0", "limit=1001", "limit=-1", "limit=abc", "limit=1e3", "limit=+5",
                          "limit=%205", "limit=5+", "limit=", "limit", "limit=1&limit=2",
                          "limit=99999999999999999999", "limit=1.0"}) {
    const auto limit = Query(bad).limit(20);
    ASSERT_FALSE(limit) << bad;
    EXPECT_EQ(limit.error().code(), Code::InvalidArgument);
  }
}

TEST(QueryTest, ReadsIntegersNumbersAndFlags) {
  EXPECT_EQ(*Query("n=-7").integer("n", {.least = -10, .most = 10}), -7);
  EXPECT_FALSE(Query("n=11").integer("n", {.least = -10, .most = 10}));
  EXPECT_EQ(*Query("").integer("n", {}), std::nullopt);
  EXPECT_EQ(*Query("ttl=1.5").number("ttl"), 1.5);
  EXPECT_EQ(*Query("ttl=-1").number("ttl"), -1);
  for (const char* bad : {"ttl=1e3", "ttl=nan", "ttl=inf", "ttl=", "ttl=1x", "ttl=0x1"}) {
    EXPECT_FALSE(Query(bad).number("ttl")) << bad;
  }
  EXPECT_TRUE(*Query("follow=true").flag("follow"));
  EXPECT_TRUE(*Query("follow").flag("follow"));
  EXPECT_FALSE(*Query("follow=0").flag("follow"));
  EXPECT_FALSE(*Query("").flag("follow"));
  EXPECT_FALSE(Query("follow=yes").flag("follow"));
}

TEST(PercentTest, EncodesWhatItDecodes) {
  const std::string text = "a/b:{}*?[]%+ \xE2\x82\xAC";
  std::string decoded;
  ASSERT_TRUE(percentDecode(percentEncode(text), Plus::Space, decoded));
  EXPECT_EQ(decoded, text);
  EXPECT_EQ(percentEncode("a/ ~"), "a%2F%20~");
}

}  // namespace
}  // namespace nimbus::http
