#include "store/rules.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace nimbus::store {
namespace {

using namespace std::chrono_literals;

TEST(IntegerTest, OnlyTheCanonicalSpellingCounts) {
  EXPECT_EQ(parseInteger("0"), 0);
  EXPECT_EQ(parseInteger("-1"), -1);
  EXPECT_EQ(parseInteger("9223372036854775807"), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(parseInteger("-9223372036854775808"), std::numeric_limits<std::int64_t>::min());
  for (const char* text : {"", "-", "-0", "007", "+1", " 1", "1 ", "1.0", "1e3", "0x1", "\"1\"",
                           "9223372036854775808", "-9223372036854775809"}) {
    EXPECT_EQ(parseInteger(text), std::nullopt) << text;
  }
}

TEST(IntegerTest, AddRefusesWhatDoesNotFit) {
  EXPECT_EQ(*addTo(std::nullopt, 5), 5);
  EXPECT_EQ(*addTo("9223372036854775806", 1), std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(addTo("9223372036854775807", 1).error().code(), Code::InvalidArgument);
  EXPECT_EQ(addTo("-9223372036854775808", -1).error().code(), Code::InvalidArgument);
  EXPECT_EQ(addTo("one", 1).error().code(), Code::InvalidArgument);
}

constexpr Timestamp kNow{Millis(1'700'000'000'000)};

TEST(GcraTest, AllowsTheBurstAndThenTheRate) {
  const op::Take take{.limiter = "l", .interval = 100ms, .burst = 3, .cost = 1};
  std::int64_t arrival = 0;
  for (std::uint64_t left = 3; left-- > 0;) {
    const auto step = gcra(take, arrival, kNow);
    ASSERT_TRUE(step);
    EXPECT_EQ(step->taken.remaining, left);
    arrival = step->arrival_us;
  }
  const auto refused = gcra(take, arrival, kNow);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::RateLimited);
  EXPECT_EQ(refused.error().field("retry_after_ms", 0), 100);

  EXPECT_FALSE(gcra(take, arrival, kNow + 99ms));
  EXPECT_TRUE(gcra(take, arrival, kNow + 100ms));
}

TEST(GcraTest, NeverAdmitsMoreThanBurstPlusRate) {
  const op::Take take{.limiter = "l", .interval = 10ms, .burst = 5, .cost = 1};
  std::int64_t arrival = 0;
  int admitted = 0;
  for (int ms = 0; ms < 1000; ++ms) {
    for (int tries = 0; tries < 3; ++tries) {
      if (const auto step = gcra(take, arrival, kNow + Millis(ms)); step) {
        arrival = step->arrival_us;
        ++admitted;
      }
    }
  }
  EXPECT_EQ(admitted, 5 + 99);
}

TEST(GcraTest, AClockThatStepsBackLocksNobodyOut) {
  const op::Take take{.limiter = "l", .interval = 100ms, .burst = 2, .cost = 1};
  const auto step = gcra(take, 0, kNow + 24h);
  ASSERT_TRUE(step);
  const auto refused = gcra(take, step->arrival_us, kNow);
  ASSERT_FALSE(refused);
  EXPECT_LE(refused.error().field("retry_after_ms", 0), 100);
}

TEST(GcraTest, SenselessParametersAreRefused) {
  for (const op::Take& take : {op::Take{.limiter = "l", .interval = 0us, .burst = 1, .cost = 1},
                               op::Take{.limiter = "l", .interval = 1ms, .burst = 0, .cost = 1},
                               op::Take{.limiter = "l", .interval = 1ms, .burst = 1, .cost = 0},
                               op::Take{.limiter = "l", .interval = 1ms, .burst = 1, .cost = 2}}) {
    EXPECT_EQ(gcra(take, 0, kNow).error().code(), Code::InvalidArgument);
  }
}

TEST(ExpiryTest, IsExactToTheMillisecond) {
  EXPECT_TRUE(isLive(std::nullopt, kNow));
  EXPECT_TRUE(isLive(kNow + 1ms, kNow));
  EXPECT_FALSE(isLive(kNow, kNow));
}

TEST(ExpiryTest, KeepingMeansTheLiveRecordsOwn) {
  const Expiry keep{.at = kNow + 1s, .keep_existing = true};
  EXPECT_EQ(expiryOf(keep, {true, std::nullopt}), std::nullopt);
  EXPECT_EQ(expiryOf(keep, {true, kNow + 9s}), kNow + 9s);
  EXPECT_EQ(expiryOf(keep, {}), kNow + 1s);
}

TEST(LimitTest, APageHasAtLeastOneItemAndNotTooMany) {
  EXPECT_TRUE(checkLimit(1));
  EXPECT_TRUE(checkLimit(kMaxPage));
  for (const std::size_t wrong : {std::size_t{0}, kMaxPage + 1}) {
    EXPECT_EQ(checkLimit(wrong).error().code(), Code::InvalidArgument);
    EXPECT_EQ(checkQuery(query::ScanLog{.log = "l", .limit = wrong}).error().code(),
              Code::InvalidArgument);
  }
  EXPECT_TRUE(checkQuery(query::GetUsage{"s"})) << "a query without a limit";
}

}  // namespace
}  // namespace nimbus::store
