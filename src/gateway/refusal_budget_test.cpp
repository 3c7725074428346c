#include "gateway/refusal_budget.h"

#include <gtest/gtest.h>

#include <string>

namespace nimbus::gateway {
namespace {

constexpr SteadyTime kNow{std::chrono::hours(5)};

std::uint64_t sum(const std::vector<RefusalBudget::Count>& counts) {
  std::uint64_t refusals = 0;
  for (const auto& count : counts) refusals += count.refusals;
  return refusals;
}

TEST(RefusalBudgetTest, AFewOfEachAddressAreRecordedAndTheRestIsCounted) {
  RefusalBudget budget;
  std::uint64_t recorded = 0;
  for (int i = 0; i < 1000; ++i) recorded += budget.admit("a", kNow) ? 1 : 0;
  EXPECT_EQ(recorded, RefusalBudget::kPerAddress);
  EXPECT_TRUE(budget.admit("b", kNow));
  const auto counts = budget.takeCounts();
  ASSERT_EQ(counts.size(), 1U);
  EXPECT_EQ(counts[0].address, "a");
  EXPECT_EQ(counts[0].refusals, 1000 - recorded);
  EXPECT_TRUE(budget.takeCounts().empty());
}

TEST(RefusalBudgetTest, ManyAddressesTogetherHaveABoundTooAndNoneIsForgotten) {
  RefusalBudget budget;
  std::uint64_t recorded = 0;
  constexpr int kAddresses = 5000;
  for (int i = 0; i < kAddresses; ++i) recorded += budget.admit(std::to_string(i), kNow) ? 1 : 0;
  EXPECT_EQ(recorded, RefusalBudget::kTogether);
  const auto counts = budget.takeCounts();
  EXPECT_LE(counts.size(), RefusalBudget::kMostAddresses + 1);
  EXPECT_EQ(sum(counts) + recorded, static_cast<std::uint64_t>(kAddresses));
}

TEST(RefusalBudgetTest, AfterAWhileThereIsRoomAgain) {
  RefusalBudget budget;
  while (budget.admit("a", kNow)) continue;
  EXPECT_FALSE(budget.admit("a", kNow + RefusalBudget::kWindow - std::chrono::milliseconds(1)));
  EXPECT_TRUE(budget.admit("a", kNow + RefusalBudget::kWindow));
}

}  // namespace
}  // namespace nimbus::gateway
