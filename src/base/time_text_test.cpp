#include "base/time_text.h"

#include <gtest/gtest.h>

namespace nimbus {
namespace {

TEST(TimeTextTest, WhatIsWrittenCanBeRead) {
  for (const std::int64_t millis : {0LL, 1LL, 1'700'000'000'123LL, 253'402'300'799'999LL}) {
    const Timestamp time{Millis(millis)};
    const auto read = parseTime(timeText(time));
    ASSERT_TRUE(read) << timeText(time);
    EXPECT_EQ(*read, time);
  }
}

TEST(TimeTextTest, OffsetsAndFractionsAreUnderstood) {
  const Timestamp time = *parseTime("2026-01-31T09:08:07Z");
  EXPECT_EQ(*parseTime("2026-01-31t09:08:07z"), time);
  EXPECT_EQ(*parseTime("2026-01-31T10:38:07+01:30"), time);
  EXPECT_EQ(*parseTime("2026-01-30T23:08:07-10:00"), time);
  EXPECT_EQ(*parseTime("2026-01-31T09:08:07.5Z"), time + Millis(500));
  EXPECT_EQ(*parseTime("2026-01-31T09:08:07.0069999Z"), time + Millis(6));
  EXPECT_EQ(*parseTime("2024-02-29T00:00:00Z"), *parseTime("2024-02-28T23:59:60Z"));
}

TEST(TimeTextTest, EverythingElseIsRefused) {
  for (const char* text :
       {"", "now", "2026-01-31", "2026-01-31T09:08Z", "2026-01-31T09:08:07", "2026-02-30T00:00:00Z",
        "2026-13-01T00:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T09:08:07.Z",
        "2026-01-31T09:08:07Z ", "2026-01-31T09:08:07+1:00", "2026-01-31T09:08:07+25:00",
        "26-01-31T09:08:07Z", "1700000000000", "+026-01-31T09:08:07Z"}) {
    EXPECT_FALSE(parseTime(text)) << text;
  }
}

}  // namespace
}  // namespace nimbus
