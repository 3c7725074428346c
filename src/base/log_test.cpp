#include "base/log.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>

namespace nimbus::log {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;

std::string text(std::string_view event, Fields fields = {}) {
  return format(Format::Text, Level::Info, event, fields);
}
boost::json::object json(std::string_view event, Fields fields = {}) {
  return boost::json::parse(format(Format::Json, Level::Warn, event, fields)).as_object();
}

// What could end the line, move the cursor or start an escape sequence.
bool isHarmless(std::string_view line) {
  for (std::size_t i = 0; i < line.size(); ++i) {
    const auto byte = static_cast<unsigned char>(line[i]);
    if (byte < 0x20 || byte == 0x7f) return false;
    const auto next = i + 1 < line.size() ? static_cast<unsigned char>(line[i + 1]) : 0;
    if (byte == 0xC2 && next < 0xA0) return false;
  }
  return true;
}

TEST(LogTest, TextLinesHaveTimeLevelEventAndFields) {
  EXPECT_THAT(text("store opened", {{"path", "/tmp/a"}, {"took_ms", 12}, {"fresh", true}}),
              MatchesRegex("[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z info  store opened "
                           "path=/tmp/a took_ms=12 fresh=true"));
}

TEST(LogTest, TextValuesAreQuotedOnlyWhereAReaderWouldStumble) {
  EXPECT_THAT(text("e", {{"a", "plain-1.2:3/x"}}), EndsWith(" a=plain-1.2:3/x"));
  EXPECT_THAT(text("e", {{"a", ""}}), EndsWith(R"( a="")"));
  EXPECT_THAT(text("e", {{"a", "two words"}}), EndsWith(R"( a="two words")"));
  EXPECT_THAT(text("e", {{"a", "x=y"}}), EndsWith(R"( a="x=y")"));
  EXPECT_THAT(text("e", {{"a", "say \"hi\""}}), EndsWith(R"( a="say \"hi\"")"));
  EXPECT_THAT(text("e", {{"a", "grün"}}), EndsWith(" a=grün"));
}

TEST(LogTest, JsonLinesAreObjectsWithTypedFields) {
  const auto line = json("slow", {{"ms", 1.5}, {"n", -3}, {"ok", false}, {"who", "日本"}});
  EXPECT_EQ(line.at("level").as_string(), "warn");
  EXPECT_EQ(line.at("event").as_string(), "slow");
  EXPECT_EQ(line.at("ms").as_double(), 1.5);
  EXPECT_EQ(line.at("n").as_int64(), -3);
  EXPECT_EQ(line.at("ok").as_bool(), false);
  EXPECT_EQ(line.at("who").as_string(), "日本");
  EXPECT_THAT(std::string(line.at("time").as_string()),
              MatchesRegex("[0-9-]{10}T[0-9:]{8}\\.[0-9]{3}Z"));
}

TEST(LogTest, NumbersThatJsonCannotHoldAreNull) {
  EXPECT_TRUE(json("e", {{"x", std::numeric_limits<double>::quiet_NaN()}}).at("x").is_null());
  EXPECT_TRUE(json("e", {{"x", std::numeric_limits<double>::infinity()}}).at("x").is_null());
}

TEST(LogTest, NoValueCanForgeALineOrReachTheTerminal) {
  for (const std::string_view value :
       {"x\n2026-01-01T00:00:00.000Z info  forged", "x\r\nforged", "\x1b[2J\x1b[31mred", "a\x7f",
        "\xC2\x9B"
        "31mred",
        "bell\a", "\v\f"}) {
    for (const Format format_as : {Format::Text, Format::Json}) {
      EXPECT_TRUE(isHarmless(format(format_as, Level::Info, "e", {{"a", value}}))) << value;
      EXPECT_TRUE(isHarmless(format(format_as, Level::Info, value, {}))) << value;
    }
    EXPECT_EQ(json("e", {{"a", value}}).at("a").as_string(), value);
  }
}

// A lone 0x9B is no UTF-8, but is an escape to a terminal in an eight-bit mode.
TEST(LogTest, BytesThatAreNotUtf8DoNotReachTheTerminal) {
  EXPECT_THAT(text("e", {{"a", "x\x9By"}}), EndsWith(" a=\"x\xEF\xBF\xBDy\""));
  EXPECT_THAT(text("x\x9By"), EndsWith(" x\xEF\xBF\xBDy"));
}

TEST(LogTest, LevelsBelowTheMinimumAreNotEnabled) {
  configure(Level::Warn, Format::Json);
  EXPECT_FALSE(enabled(Level::Info));
  EXPECT_TRUE(enabled(Level::Warn));
  EXPECT_TRUE(enabled(Level::Error));
  configure(Level::Off, Format::Json);
  EXPECT_FALSE(enabled(Level::Error));
  configure(Level::Info, Format::Auto);
  EXPECT_TRUE(enabled(Level::Info));
  EXPECT_FALSE(enabled(Level::Debug));
}

TEST(LogTest, LinesGoToStandardErrorWhole) {
  configure(Level::Info, Format::Json);
  ::testing::internal::CaptureStderr();
  info("first", {{"n", 1}});
  debug("not this one");
  error("second");
  const std::string written = ::testing::internal::GetCapturedStderr();
  configure(Level::Info, Format::Auto);

  EXPECT_EQ(std::count(written.begin(), written.end(), '\n'), 2);
  EXPECT_THAT(written, HasSubstr(R"("event":"first","n":1})"));
  EXPECT_THAT(written, HasSubstr(R"("level":"error","event":"second"})"));
  EXPECT_THAT(written, Not(HasSubstr("not this one")));
}

}  // namespace
}  // namespace nimbus::log
