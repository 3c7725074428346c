// Limiters: GCRA in one atomic step. Nothing reads a limiter, so only taking shows its state.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(LimiterTest, GivesTheBurstAndThenTheRate) {
  for (std::uint64_t left = 3; left-- > 0;) {
    const Taken taken = this->taken(take("l", 100ms, 3));
    EXPECT_EQ(taken.remaining, left);
    EXPECT_EQ(taken.reset_after, Millis(100 * (3 - left)));
  }
  EXPECT_EQ(refused(take("l", 100ms, 3)),
            "rate_limited operation=0 reset_after_ms=300 retry_after_ms=100");
  advance(99ms);
  EXPECT_EQ(refused(take("l", 100ms, 3)),
            "rate_limited operation=0 reset_after_ms=201 retry_after_ms=1");
  advance(1ms);
  EXPECT_EQ(taken(take("l", 100ms, 3)).remaining, 0U);
}

TEST_P(LimiterTest, CostsAreTakenWhole) {
  EXPECT_EQ(taken(take("l", 100ms, 10, 7)).remaining, 3U);
  EXPECT_EQ(refused(take("l", 100ms, 10, 4)),
            "rate_limited operation=0 reset_after_ms=700 retry_after_ms=100");
  EXPECT_EQ(taken(take("l", 100ms, 10, 3)).remaining, 0U);
}

TEST_P(LimiterTest, ARefusalTakesNothing) {
  commit(take("l", 100ms, 2));
  commit(take("l", 100ms, 2));
  for (int i = 0; i < 5; ++i) refused(take("l", 100ms, 2));
  advance(100ms);
  EXPECT_EQ(taken(take("l", 100ms, 2)).remaining, 0U);
}

TEST_P(LimiterTest, ABatchRefusedForAnotherReasonTakesNothing) {
  refused(take("l", 100ms, 5), expecting(put("s", "k"), 9));
  refused(require::RecordVersion{"s", "k", 9}, take("l", 100ms, 5));
  EXPECT_EQ(taken(take("l", 100ms, 5)).remaining, 4U);
}

TEST_P(LimiterTest, ALimitedBatchWritesNothing) {
  commit(take("l", 100ms, 1));
  EXPECT_EQ(refused(put("s", "k"), append("e", "a"), push("q", "i"), take("l", 100ms, 1)),
            "rate_limited operation=3 reset_after_ms=100 retry_after_ms=100");
}

TEST_P(LimiterTest, FillsUpToTheBurstAndNoFurther) {
  commit(take("l", 100ms, 3, 3));
  advance(24h);
  EXPECT_EQ(taken(take("l", 100ms, 3)).remaining, 2U);
}

TEST_P(LimiterTest, IntervalsAreMicroseconds) {
  const auto third = std::chrono::microseconds(333);
  for (int i = 0; i < 3; ++i) commit(take("l", third, 3));
  EXPECT_EQ(error(take("l", third, 3)).field("retry_after_ms", 0), 1);
  advance(1ms);
  for (int i = 0; i < 3; ++i) commit(take("l", third, 3));
  EXPECT_EQ(error(take("l", third, 3)).code(), Code::RateLimited);
}

TEST_P(LimiterTest, SenselessParametersAreRefused) {
  EXPECT_EQ(refused(take("l", 100ms, 2, 3)), "invalid_argument operation=0");
  EXPECT_EQ(refused(take("l", 100ms, 2, 0)), "invalid_argument operation=0");
  EXPECT_EQ(refused(take("l", 100ms, 0, 0)), "invalid_argument operation=0");
  EXPECT_EQ(refused(take("l", 0ms, 2)), "invalid_argument operation=0");
  EXPECT_EQ(refused(take("l", -1ms, 2)), "invalid_argument operation=0");
  EXPECT_EQ(taken(take("l", 100ms, 2)).remaining, 1U);
}

TEST_P(LimiterTest, LimitersStandOnTheirOwn) {
  commit(take("a", 100ms, 1), take("b", 100ms, 1));
  EXPECT_EQ(refused(take("a", 100ms, 1)),
            "rate_limited operation=0 reset_after_ms=100 retry_after_ms=100");
  EXPECT_EQ(taken(take("c", 100ms, 1)).remaining, 0U);
  Client other = clientOf(Partition("session", {"cart", "bob"}));
  EXPECT_EQ(other.taken(take("a", 100ms, 1)).remaining, 0U);
}

TEST_P(LimiterTest, OtherParametersGoOnWithTheSameLimiter) {
  commit(take("l", 100ms, 4, 4));
  EXPECT_EQ(error(take("l", 100ms, 4)).code(), Code::RateLimited);
  EXPECT_EQ(taken(take("l", 100ms, 8)).remaining, 3U);
}

TEST_P(LimiterTest, SweepTakesFullLimitersAndNoOthers) {
  commit(take("full", 1ms, 5), take("empty", 24h, 1));
  EXPECT_EQ(sweepAll(), 0U);
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 1U);
  EXPECT_EQ(taken(take("full", 1ms, 5)).remaining, 4U);
  EXPECT_EQ(error(take("empty", 24h, 1)).code(), Code::RateLimited);
}

// However many that are not yet full a sweep has to pass before it finds one that is.
TEST_P(LimiterTest, SweepIsNotDoneBeforeItHasSeenThemAll) {
  Batch many;
  for (int i = 0; i < 1000; ++i) {
    many.operations.emplace_back(take("a" + std::to_string(i), 24h, 1));
  }
  many.operations.emplace_back(take("z", 1ms, 5));
  for (const Millis budget : {Millis(1000), Millis(0)}) {
    SCOPED_TRACE(budget.count());
    Client client = clientOf(Partition("session", {"cart", std::to_string(budget.count())}));
    client.applied(many);
    advance(1ms + kSweptBy);
    EXPECT_EQ(client.sweepAll(budget), 1U);
  }
}

TEST_P(LimiterTest, OutlivesTheStore) {
  commit(take("l", 100ms, 1));
  if (!reopen()) return;
  EXPECT_EQ(refused(take("l", 100ms, 1)),
            "rate_limited operation=0 reset_after_ms=100 retry_after_ms=100");
}

}  // namespace
}  // namespace nimbus::store::conformance
