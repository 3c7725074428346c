#include "base/utf8.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

namespace nimbus::utf8 {
namespace {

// The encoding of `point`, without any check: also of what is none.
std::string encode(std::uint32_t point) {
  const auto byte = [](std::uint32_t value) { return static_cast<char>(value); };
  const auto tail = [&](unsigned shift) { return byte(0x80U | ((point >> shift) & 0x3FU)); };
  if (point < 0x80) return {byte(point)};
  if (point < 0x800) return {byte(0xC0U | (point >> 6U)), tail(0)};
  if (point < 0x10000) return {byte(0xE0U | (point >> 12U)), tail(6), tail(0)};
  return {byte(0xF0U | (point >> 18U)), tail(12), tail(6), tail(0)};
}

bool isSurrogate(std::uint32_t point) {
  return point >= 0xD800 && point <= 0xDFFF;
}

TEST(Utf8Test, EveryCodePointHasItsLengthAndSurrogatesHaveNone) {
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const std::string text = encode(point);
    const std::size_t expected = isSurrogate(point) ? 0 : text.size();
    ASSERT_EQ(sequenceLength(text), expected) << std::hex << point;
    ASSERT_EQ(isValid(text), expected != 0) << std::hex << point;
  }
}

TEST(Utf8Test, ValuesPastTheLastCodePointAreNone) {
  EXPECT_EQ(sequenceLength(encode(0x110000)), 0U);
  EXPECT_EQ(sequenceLength("\xF5\x80\x80\x80"), 0U);
  EXPECT_EQ(sequenceLength("\xFF"), 0U);
}

TEST(Utf8Test, OverlongFormsAreNone) {
  EXPECT_EQ(sequenceLength("\xC0\x80"), 0U);
  EXPECT_EQ(sequenceLength("\xC1\xBF"), 0U);
  EXPECT_EQ(sequenceLength("\xE0\x9F\xBF"), 0U);
  EXPECT_EQ(sequenceLength("\xF0\x8F\xBF\xBF"), 0U);
}

TEST(Utf8Test, CutOffSequencesAndStrayContinuationsAreNone) {
  EXPECT_EQ(sequenceLength(""), 0U);
  EXPECT_EQ(sequenceLength("\x80"), 0U);
  EXPECT_EQ(sequenceLength("\xC3"), 0U);
  EXPECT_EQ(sequenceLength("\xE2\x82"), 0U);
  EXPECT_EQ(sequenceLength("\xF0\x9F\x8E"), 0U);
  EXPECT_EQ(sequenceLength("\xE2\x82z"), 0U);
  EXPECT_EQ(sequenceLength("\xF0\x9Fz\x89"), 0U);
}

TEST(Utf8Test, OnlyTheFirstCodePointCounts) {
  EXPECT_EQ(sequenceLength("é\xFF"), 2U);
  EXPECT_FALSE(isValid("é\xFF"));
  EXPECT_TRUE(isValid(""));
  EXPECT_TRUE(isValid("plain, é, 日本, 🎉"));
}

}  // namespace
}  // namespace nimbus::utf8
