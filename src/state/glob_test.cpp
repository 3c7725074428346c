#include "state/glob.h"

#include <gmock/gmock.h>

#include <string>

namespace nimbus::state {
namespace {

TEST(GlobTest, StarsTakeAnyText) {
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("*", "a:b/c"));
  EXPECT_TRUE(matches("cart:*", "cart:1"));
  EXPECT_FALSE(matches("cart:*", "car:1"));
  EXPECT_TRUE(matches("*b*d", "abcd"));
  EXPECT_FALSE(matches("*b*d", "abcde"));
  EXPECT_TRUE(matches("a**b", "ab"));
  EXPECT_FALSE(matches("", "a"));
  EXPECT_TRUE(matches("", ""));
}

TEST(GlobTest, AQuestionMarkIsOneCodePoint) {
  EXPECT_TRUE(matches("a?c",
                      "a\xc3\xa4"
                      "c"));
  EXPECT_TRUE(matches("?", "\xf0\x9f\x98\x80"));
  EXPECT_FALSE(matches("??", "\xc3\xa4"));
  EXPECT_FALSE(matches("?", ""));
}

TEST(GlobTest, SetsAreOneOfTheirsAndKnowNoNegation) {
  EXPECT_TRUE(matches("[a-c]x", "bx"));
  EXPECT_FALSE(matches("[a-c]x", "dx"));
  EXPECT_TRUE(matches("[!a]", "!"));
  EXPECT_TRUE(matches("[^a]", "^"));
  EXPECT_FALSE(matches("[^a]", "b"));
  EXPECT_TRUE(matches("[\xc3\xa0-\xc3\xbc]", "\xc3\xa4"));
  EXPECT_TRUE(matches("[\\]]", "]"));
  EXPECT_TRUE(matches("[a-]", "-"));
  EXPECT_FALSE(matches("[]", "a")) << "an empty set has nobody";
}

TEST(GlobTest, ABracketWithoutEndIsItself) {
  EXPECT_TRUE(matches("[a", "[a"));
  EXPECT_TRUE(matches("*[", "x["));
}

TEST(GlobTest, ABackslashTakesTheNextAsItIs) {
  EXPECT_TRUE(matches("\\*", "*"));
  EXPECT_FALSE(matches("\\*", "a"));
  EXPECT_TRUE(matches("a\\?", "a?"));
  EXPECT_TRUE(matches("\\\\", "\\"));
  EXPECT_TRUE(matches("a\\", "a\\"));
}

TEST(GlobTest, ManyStarsCostNoTime) {
  std::string pattern;
  for (int i = 0; i < 100; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(256, 'a')));
}

}  // namespace
}  // namespace nimbus::state
