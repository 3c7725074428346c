#include "base/json_text.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>

namespace nimbus {
namespace {

std::string asJson(std::string_view text) {
  std::string out;
  appendJsonString(out, text);
  return out;
}

TEST(JsonTextTest, QuotesAndEscapes) {
  EXPECT_EQ(asJson(""), R"("")");
  EXPECT_EQ(asJson("plain"), R"("plain")");
  EXPECT_EQ(asJson("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(asJson("\n\r\t"), R"("\n\r\t")");
  EXPECT_EQ(asJson(std::string_view("\0\x1b\x7f", 3)), R"("\u0000\u001b\u007f")");
}

TEST(JsonTextTest, KeepsTextBeyondAsciiAsItIs) {
  EXPECT_EQ(asJson("é日本🎉"), "\"é日本🎉\"");
}

// A terminal takes U+009B for the beginning of an escape sequence, as it does ESC [.
TEST(JsonTextTest, EscapesC1Controls) {
  EXPECT_EQ(asJson("\xC2\x9B"), R"("\u009b")");
  EXPECT_EQ(asJson("\xC2\x80\xC2\x9F"), R"("\u0080\u009f")");
  EXPECT_EQ(asJson("\xC2\xA0"), "\"\xC2\xA0\"");
}

TEST(JsonTextTest, BytesThatAreNotUtf8BecomeReplacementCharacters) {
  EXPECT_EQ(asJson("a\xFFz"), "\"a\xEF\xBF\xBDz\"");
  EXPECT_EQ(asJson("\xE2\x82"), "\"\xEF\xBF\xBD\xEF\xBF\xBD\"");
}

TEST(JsonTextTest, PrintableTextHasNoQuotesAround) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("it's \x1b[31m red\n"), R"(it's \u001b[31m red\n)");
}

TEST(JsonTextTest, EveryCodePointComesBackFromAParser) {
  for (std::uint32_t point = 0; point < 0x3000; ++point) {
    std::string text = "<";
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else if (point < 0x800) {
      text += static_cast<char>(0xC0U | (point >> 6U));
      text += static_cast<char>(0x80U | (point & 0x3FU));
    } else {
      text += static_cast<char>(0xE0U | (point >> 12U));
      text += static_cast<char>(0x80U | ((point >> 6U) & 0x3FU));
      text += static_cast<char>(0x80U | (point & 0x3FU));
    }
    text += '>';
    ASSERT_EQ(boost::json::parse(asJson(text)).as_string(), text) << point;
  }
}

TEST(JsonTextTest, AnyTwoBytesGiveValidJsonWithoutControlCharacters) {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string out =
          asJson(std::string{static_cast<char>(first), static_cast<char>(second)});
      boost::system::error_code failed;
      boost::json::parse(out, failed);
      ASSERT_FALSE(failed) << first << ' ' << second;
      ASSERT_TRUE(
          std::none_of(out.begin(), out.end(),
                       [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }))
          << first << ' ' << second;
    }
  }
}

}  // namespace
}  // namespace nimbus
