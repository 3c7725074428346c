#include "cluster/ring.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace nimbus::cluster {
namespace {

std::vector<std::string> nodes(std::size_t count) {
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < count; ++i) ids.push_back("gw-host-" + std::to_string(1000 + i));
  return ids;
}

TEST(Ring, AnEmptyOneProposesNobody) {
  EXPECT_FALSE(Ring().ownerOf(17));
  EXPECT_FALSE(Ring(nodes(0)).ownerOf(17));
}

TEST(Ring, ASingleNodeHasEverything) {
  const Ring ring(nodes(1));
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ring.ownerOf(pointOf("f", std::to_string(i))), 0U);
  EXPECT_NEAR(ring.shares()[0], 1, 1e-9);
}

TEST(Ring, SpreadsSessionsWhoseKeysAreAlike) {
  const Ring ring(nodes(10));
  std::map<std::size_t, int> counts;
  constexpr int kSessions = 100'000;
  for (int i = 0; i < kSessions; ++i) ++counts[*ring.ownerOf(pointOf("cart", std::to_string(i)))];
  ASSERT_EQ(counts.size(), 10U);
  for (const auto& [node, count] : counts) {
    EXPECT_GT(count, kSessions / 10 * 0.7) << node;
    EXPECT_LT(count, kSessions / 10 * 1.35) << node;
  }
}

TEST(Ring, ANodeThatLeavesMovesOnlyWhatWasItsOwn) {
  std::vector<std::string> ids = nodes(5);
  const Ring before(ids);
  ids.erase(ids.begin() + 2);
  const Ring after(ids);
  for (int i = 0; i < 10'000; ++i) {
    const std::uint64_t point = pointOf("cart", std::to_string(i));
    const std::size_t was = *before.ownerOf(point);
    const std::size_t is = *after.ownerOf(point);
    if (was != 2) EXPECT_EQ(was > 2 ? was - 1 : was, is);
  }
}

TEST(Ring, TheOrderOfTheListDoesNotMatter) {
  const std::vector<std::string> ids = nodes(4);
  const std::vector<std::string> turned(ids.rbegin(), ids.rend());
  const Ring a(ids);
  const Ring b(turned);
  for (int i = 0; i < 1'000; ++i) {
    const std::uint64_t point = pointOf("f", std::to_string(i));
    EXPECT_EQ(ids[*a.ownerOf(point)], turned[*b.ownerOf(point)]);
  }
}

TEST(Ring, FunctionAndSessionAreNotOneText) {
  EXPECT_NE(pointOf("ab", "c"), pointOf("a", "bc"));
}

TEST(Ring, SharesAreWhatItProposes) {
  const Ring ring(nodes(3));
  const auto shares = ring.shares();
  std::map<std::size_t, int> counts;
  constexpr int kSessions = 50'000;
  for (int i = 0; i < kSessions; ++i) ++counts[*ring.ownerOf(pointOf("f", std::to_string(i)))];
  double sum = 0;
  for (std::size_t node = 0; node < 3; ++node) {
    sum += shares[node];
    EXPECT_NEAR(shares[node], static_cast<double>(counts[node]) / kSessions, 0.02);
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

}  // namespace
}  // namespace nimbus::cluster
