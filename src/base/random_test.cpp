#include "base/random.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

namespace nimbus {
namespace {

TEST(RandomTest, ASeedGivesTheSameNumbersAgain) {
  SeededRandom first(7);
  SeededRandom again(7);
  SeededRandom other(8);
  const std::string text = first.base36(40);
  EXPECT_EQ(again.base36(40), text);
  EXPECT_NE(other.base36(40), text);
}

TEST(RandomTest, BelowStaysBelowAndReachesEveryValue) {
  SeededRandom random(1);
  std::array<int, 10> seen{};
  for (int i = 0; i < 10'000; ++i) ++seen.at(random.below(10));
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int n) { return n > 800 && n < 1200; }));
  EXPECT_EQ(random.below(1), 0U);
}

TEST(RandomTest, Base36HasTheAskedLengthAndOnlyItsDigits) {
  SystemRandom random;
  EXPECT_EQ(random.base36(0), "");
  const std::string text = random.base36(500);
  EXPECT_EQ(text.size(), 500U);
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  EXPECT_EQ(text.find_first_not_of(kDigits), std::string::npos);
}

TEST(RandomTest, SystemRandomNeverRepeatsAcrossThreads) {
  SystemRandom random;
  std::mutex mutex;
  std::set<std::uint64_t> seen;
  constexpr int kThreads = 4;
  constexpr int kEach = 1000;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) {
        const std::uint64_t value = random.next();
        const std::lock_guard lock(mutex);
        seen.insert(value);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(kThreads) * kEach);
}

}  // namespace
}  // namespace nimbus
