#include "base/ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <type_traits>
#include <unordered_set>

namespace nimbus {
namespace {

using ::testing::HasSubstr;

bool isName(std::string_view text) {
  return checkName("name", text).has_value();
}
bool isText(std::string_view text) {
  return checkText("text", text).has_value();
}

TEST(NameTest, BeginsWithALetterOrDigit) {
  EXPECT_TRUE(isName("a"));
  EXPECT_TRUE(isName("Z"));
  EXPECT_TRUE(isName("0"));
  EXPECT_FALSE(isName("_a"));
  EXPECT_FALSE(isName(".a"));
  EXPECT_FALSE(isName("-a"));
}

TEST(NameTest, HoldsOnlyLettersDigitsUnderscoreDotAndHyphen) {
  EXPECT_TRUE(isName("a_b.c-D9"));
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
    EXPECT_EQ(isName(std::string("a") + c), allowed) << "byte " << byte;
  }
}

TEST(NameTest, HasOneTo128Bytes) {
  EXPECT_FALSE(isName(""));
  EXPECT_TRUE(isName(std::string(128, 'a')));
  EXPECT_FALSE(isName(std::string(129, 'a')));
}

TEST(TextTest, HasOneTo256BytesNotCharacters) {
  EXPECT_FALSE(isText(""));
  EXPECT_TRUE(isText(std::string(256, 'a')));
  EXPECT_FALSE(isText(std::string(257, 'a')));

  std::string two_bytes_each;
  for (int i = 0; i < 128; ++i) two_bytes_each += "é";
  EXPECT_TRUE(isText(two_bytes_each));
  EXPECT_FALSE(isText(two_bytes_each + "a"));
}

TEST(TextTest, TakesEverySignThatMeansSomethingElsewhereAsData) {
  EXPECT_TRUE(isText(":{}*?[]%/\\ \"'<>&#+;=,|`~^"));
  EXPECT_TRUE(isText(".."));
  EXPECT_TRUE(isText("日本語 🎉 ß"));
}

TEST(TextTest, RefusesEveryControlCharacter) {
  for (int byte = 0; byte < 0x20; ++byte) {
    EXPECT_FALSE(isText(std::string("a") + static_cast<char>(byte))) << "byte " << byte;
  }
  EXPECT_FALSE(isText(std::string("a\0b", 3)));
  EXPECT_FALSE(isText("a\x7f"));
  EXPECT_TRUE(isText("a "));  // 0x20 is the first that is none
}

TEST(TextTest, RefusesC1ControlsAndTakesWhatStandsBesideThem) {
  for (int second = 0x80; second <= 0x9F; ++second) {
    EXPECT_FALSE(isText(std::string("a\xC2") + static_cast<char>(second))) << second;
  }
  EXPECT_TRUE(isText("\xC2\xA0"));      // U+00A0, the first after C1
  EXPECT_TRUE(isText("\xC3\x80"));      // U+00C0: ends as a C1 control does
  EXPECT_TRUE(isText("\xE2\x82\x9F"));  // U+209F: likewise
}

TEST(TextTest, RefusesWhatIsNotUtf8) {
  EXPECT_FALSE(isText("a\xFF"));
  EXPECT_FALSE(isText("\x80"));
  EXPECT_FALSE(isText("\xC3"));
  EXPECT_FALSE(isText("\xC0\xAF"));      // overlong '/'
  EXPECT_FALSE(isText("\xED\xA0\x80"));  // a surrogate
}

TEST(IdTest, ErrorsSayWhichIdAndWhatIsWrong) {
  const auto empty = FunctionId::parse("");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code(), Code::InvalidArgument);
  EXPECT_THAT(empty.error().message(), HasSubstr("function id"));
  EXPECT_THAT(empty.error().message(), HasSubstr("1 to 128"));

  const auto control = SessionKey::parse("a\nb");
  ASSERT_FALSE(control);
  EXPECT_THAT(control.error().message(), HasSubstr("session key"));
  EXPECT_THAT(control.error().message(), HasSubstr("control"));
}

TEST(IdTest, KindsAreDifferentTypesAndWorkAsKeys) {
  static_assert(!std::is_convertible_v<FunctionId, SessionKey>);
  static_assert(!std::is_constructible_v<SessionKey, std::string>);

  std::unordered_set<SessionKey> seen;
  seen.insert(*SessionKey::parse("a"));
  seen.insert(*SessionKey::parse("a"));
  seen.insert(*SessionKey::parse("b"));
  EXPECT_EQ(seen.size(), 2U);
  EXPECT_LT(*SessionKey::parse("a"), *SessionKey::parse("b"));
}

}  // namespace
}  // namespace nimbus
