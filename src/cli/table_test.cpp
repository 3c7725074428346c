#include "cli/table.h"

#include "cli/text_width.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::cli {
namespace {

TEST(TextWidthTest, CountsColumnsNotBytes) {
  EXPECT_EQ(textWidth("abc"), 3U);
  EXPECT_EQ(textWidth("é"), 1U);
  EXPECT_EQ(textWidth("e\xCC\x81"), 1U);
  EXPECT_EQ(textWidth("会话"), 4U);
  EXPECT_EQ(textWidth("🙂"), 2U);
}

TEST(TextWidthTest, ShowsWhatATerminalWouldObey) {
  EXPECT_EQ(shownText("{\"a\": 1}\t会"), "{\"a\": 1}\t会");
  EXPECT_EQ(shownText("\x1b[31m\n"), "\\x1b[31m\\x0a");
  EXPECT_EQ(shownText("\xff"), "\uFFFD");
}

TEST(TextWidthTest, CutsBetweenLetters) {
  EXPECT_EQ(cutToWidth("abcdef", 6), "abcdef");
  EXPECT_EQ(cutToWidth("abcdef", 4), "abc…");
  EXPECT_EQ(cutToWidth("会话会话", 4), "会…");
  EXPECT_EQ(cutToWidth("abc", 0), "");
}

Table sample() {
  Table table({{"KEY"}, {"SIZE", Table::Align::Right}});
  table.add({"会话", "7"});
  table.add({"a-long-session-key", "1234"});
  return table;
}

TEST(TableTest, ColumnsStandBelowEachOther) {
  EXPECT_EQ(sample().text(0),
            "KEY                 SIZE\n"
            "会话                   7\n"
            "a-long-session-key  1234\n");
}

TEST(TableTest, OnATerminalNoLineIsBroken) {
  EXPECT_EQ(sample().text(16),
            "KEY         SIZE\n"
            "会话           7\n"
            "a-long-se…  1234\n");
}

TEST(TableTest, WhatATerminalWouldObeyIsEscaped) {
  Table table({{"KEY"}});
  table.add({"\x1b[31mred\n"});
  EXPECT_THAT(table.text(0), ::testing::Not(::testing::HasSubstr("\x1b")));
}

}  // namespace
}  // namespace nimbus::cli
