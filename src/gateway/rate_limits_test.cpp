#include "gateway/rate_limits.h"

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "gateway/testing/run.h"
#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <string>

namespace nimbus::gateway {
namespace {

class RateLimitsTest : public ::testing::Test {
 protected:
  static Principal limitedTo(RateLimit limit) {
    Principal principal;
    principal.id = "k1";
    principal.rate_limit = limit;
    return principal;
  }
  bool take(RateLimits& limits, const Principal& principal, const std::string& function = "") {
    request_.answer_fields.clear();
    auto taken = run(limits.take(principal, function, request_));
    if (!taken) {
      EXPECT_EQ(taken.error().code(), Code::RateLimited);
      retry_after_ = taken.error().field("retry_after_ms", -1);
    }
    return taken.has_value();
  }
  std::string field(std::string_view name) const {
    return std::string(request_.answer_fields.find(name));
  }
  void pass(Millis time) {
    clock_.advance(time);
    steady_.advance(time);
  }

  ManualClock clock_;
  ManualSteadyClock steady_;
  store::memory::MemoryStore store_{clock_};
  RateLimits here_{store_, steady_, {}};
  RateLimits there_{store_, steady_, {}};
  http::Request request_;
  std::int64_t retry_after_ = -1;
};

TEST_F(RateLimitsTest, ProcessesTogetherLetInExactlyWhatIsAllowed) {
  const Principal five = limitedTo(RateLimit::perMinute(5));
  int allowed = 0;
  for (int i = 0; i < 10; ++i) {
    if (take(here_, five)) ++allowed;
    if (take(there_, five)) ++allowed;
  }
  EXPECT_EQ(allowed, 5);
}

TEST_F(RateLimitsTest, AnswersTellHowMuchIsLeft) {
  const Principal three = limitedTo(RateLimit::perMinute(3));
  ASSERT_TRUE(take(here_, three));
  EXPECT_EQ(field("RateLimit-Limit"), "3");
  EXPECT_EQ(field("RateLimit-Remaining"), "2");
  EXPECT_EQ(field("RateLimit-Reset"), "20");
  ASSERT_TRUE(take(here_, three));
  ASSERT_TRUE(take(here_, three));
  EXPECT_EQ(field("RateLimit-Remaining"), "0");
  ASSERT_FALSE(take(here_, three));
  EXPECT_EQ(retry_after_, 20'000);
  EXPECT_EQ(field("RateLimit-Limit"), "3");
  EXPECT_EQ(field("RateLimit-Remaining"), "0");
  EXPECT_EQ(field("RateLimit-Reset"), "60");
}

TEST_F(RateLimitsTest, WhoeverWaitsAsToldIsLetInAndNobodyBefore) {
  const Principal two = limitedTo(RateLimit::perMinute(2));
  ASSERT_TRUE(take(here_, two));
  ASSERT_TRUE(take(here_, two));
  ASSERT_FALSE(take(here_, two));
  pass(Millis(10'000));
  ASSERT_FALSE(take(here_, two)) << "known here to be empty, without asking the store";
  EXPECT_EQ(retry_after_, 20'000);
  pass(Millis(retry_after_ - 1));
  EXPECT_FALSE(take(here_, two));
  EXPECT_FALSE(take(there_, two));
  pass(Millis(1));
  EXPECT_TRUE(take(here_, two));
  EXPECT_FALSE(take(there_, two));
}

TEST_F(RateLimitsTest, FunctionsAndAddressesHaveLimitsOfTheirOwn) {
  RateLimits::Options options;
  options.per_function = RateLimit::perMinute(2);
  options.per_address = RateLimit::perMinute(1);
  RateLimits limits(store_, steady_, options);
  const Principal free = limitedTo({});
  EXPECT_TRUE(limits.limits(free, "cart"));
  EXPECT_FALSE(limits.limits(free, ""));
  EXPECT_TRUE(take(limits, free, "cart"));
  EXPECT_TRUE(take(limits, free, "cart"));
  EXPECT_FALSE(take(limits, free, "cart"));
  EXPECT_TRUE(take(limits, free, "mail"));

  request_.peer_address = "10.0.0.1";
  EXPECT_TRUE(limits.limitsAddresses());
  EXPECT_TRUE(run(limits.takeForAddress(request_)));
  EXPECT_FALSE(run(limits.takeForAddress(request_)));
  request_.peer_address = "10.0.0.2";
  EXPECT_TRUE(run(limits.takeForAddress(request_)));
}

TEST_F(RateLimitsTest, WhoHasNoLimitIsNotCounted) {
  EXPECT_FALSE(here_.limits(limitedTo({}), "cart"));
  EXPECT_FALSE(here_.limitsAddresses());
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(take(here_, limitedTo({}), "cart"));
  EXPECT_EQ(field("RateLimit-Limit"), "");
}

TEST_F(RateLimitsTest, ABurstMayBeSmallerThanTheLimit) {
  const Principal principal = limitedTo({60, Millis(60'000), 1});
  EXPECT_TRUE(take(here_, principal));
  EXPECT_FALSE(take(here_, principal));
  pass(Millis(1000));
  EXPECT_TRUE(take(here_, principal));
}

}  // namespace
}  // namespace nimbus::gateway
