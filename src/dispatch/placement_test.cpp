// Which worker a new session gets.

#include "dispatch/placement.h"

#include "dispatch/hash.h"
#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <numeric>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

std::uint64_t hashOfNumber(std::size_t i) {
  return hashOf("session-" + std::to_string(i), 42);
}

// ---- the ring

TEST(RingTest, AnEmptyRingFindsNobody) {
  const Ring ring({});
  EXPECT_EQ(ring.find(1, [](std::size_t) { return true; }), ring.size());
}

TEST(RingTest, AMemberThatDoesNotAcceptIsPassedOver) {
  const Ring ring({1, 1, 1});
  for (std::size_t i = 0; i < 100; ++i) {
    const std::uint64_t hash = hashOfNumber(i);
    const std::size_t first = ring.find(hash, [](std::size_t) { return true; });
    const std::size_t second = ring.find(hash, [&](std::size_t m) { return m != first; });
    EXPECT_LT(second, 3U);
    EXPECT_NE(second, first);
    EXPECT_EQ(ring.find(hash, [](std::size_t) { return false; }), 3U);
  }
}

TEST(RingTest, TheEndOfTheRingGoesOnAtItsBeginning) {
  const Ring ring({1, 1});
  EXPECT_LT(ring.find(~std::uint64_t{0}, [](std::size_t) { return true; }), 2U);
  EXPECT_EQ(ring.find(~std::uint64_t{0}, [](std::size_t m) { return m == 1; }), 1U);
}

TEST(RingTest, FewMoveWhenAMemberIsAddedAndAllOfThemToIt) {
  const Ring before(std::vector<unsigned>(10, 1));
  const Ring after(std::vector<unsigned>(11, 1));
  const auto anyone = [](std::size_t) { return true; };
  constexpr std::size_t kSessions = 20'000;
  std::size_t moved = 0;
  for (std::size_t i = 0; i < kSessions; ++i) {
    const std::size_t from = before.find(hashOfNumber(i), anyone);
    const std::size_t to = after.find(hashOfNumber(i), anyone);
    if (from == to) continue;
    ++moved;
    EXPECT_EQ(to, 10U);
  }
  // One in eleven is its share.
  EXPECT_GT(moved, kSessions / 22);
  EXPECT_LT(moved, kSessions / 11 * 3 / 2);
}

TEST(RingTest, AWeightOfTwoGetsTwiceAsMuch) {
  const Ring ring({1, 2, 0});
  std::vector<std::size_t> counts(3);
  for (std::size_t i = 0; i < 30'000; ++i) {
    ++counts[ring.find(hashOfNumber(i), [](std::size_t) { return true; })];
  }
  EXPECT_EQ(counts[2], 0U);
  EXPECT_NEAR(static_cast<double>(counts[1]) / static_cast<double>(counts[0]), 2.0, 0.5);
}

// ---- the placer

class PlacerTest : public ::testing::Test {
 protected:
  std::optional<std::size_t> place(Placer& placer, std::uint64_t hash) {
    const auto placed = placer.place(hash, [this](std::size_t i) { return counts_[i]; });
    if (placed) ++counts_[*placed];
    return placed;
  }

  std::vector<std::size_t> counts_ = std::vector<std::size_t>(16);
};

TEST_F(PlacerTest, AHundredThousandSessionsOnTenWorkersAreSpreadEvenly) {
  Placer placer(Placement::ConsistentHash, std::vector<unsigned>(10, 1), 0);
  for (std::size_t i = 0; i < 100'000; ++i) ASSERT_TRUE(place(placer, hashOfNumber(i)));
  EXPECT_LE(*std::max_element(counts_.begin(), counts_.end()), 12'000U);
  EXPECT_EQ(std::accumulate(counts_.begin(), counts_.end(), std::size_t{0}), 100'000U);
}

TEST_F(PlacerTest, TheSameNameComesBackToTheSameWorker) {
  Placer placer(Placement::ConsistentHash, std::vector<unsigned>(10, 1), 0);
  std::fill(counts_.begin(), counts_.end(), 100);
  for (std::size_t i = 0; i < 100; ++i) {
    const auto all = [this](std::size_t w) { return counts_[w]; };
    EXPECT_EQ(placer.place(hashOfNumber(i), all), placer.place(hashOfNumber(i), all));
  }
}

TEST_F(PlacerTest, NoWorkerGetsMoreThanASmallPartAboveItsShareWhateverTheHashes) {
  Placer placer(Placement::ConsistentHash, std::vector<unsigned>(4, 1), 0);
  for (std::size_t i = 0; i < 4000; ++i) ASSERT_TRUE(place(placer, 12345));
  EXPECT_LE(*std::max_element(counts_.begin(), counts_.end()), 1151U);
}

TEST_F(PlacerTest, WeightsAreFollowedByEveryStrategy) {
  for (const Placement strategy :
       {Placement::ConsistentHash, Placement::RoundRobin, Placement::LeastLoaded}) {
    std::fill(counts_.begin(), counts_.end(), 0);
    Placer placer(strategy, {1, 3, 0}, 0);
    for (std::size_t i = 0; i < 4000; ++i) ASSERT_TRUE(place(placer, hashOfNumber(i)));
    EXPECT_NEAR(static_cast<double>(counts_[0]), 1000, 200);
    EXPECT_NEAR(static_cast<double>(counts_[1]), 3000, 200);
    EXPECT_EQ(counts_[2], 0U);
  }
}

TEST_F(PlacerTest, RoundRobinGoesFromOneToTheNext) {
  Placer placer(Placement::RoundRobin, {1, 1, 1}, 0);
  std::vector<std::size_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(*place(placer, 7));
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST_F(PlacerTest, RoundRobinWithWeightsDoesNotServeOneInABlock) {
  Placer placer(Placement::RoundRobin, {2, 1}, 0);
  std::vector<std::size_t> order;
  for (int i = 0; i < 6; ++i) order.push_back(*place(placer, 7));
  EXPECT_THAT(order, ElementsAre(0, 1, 0, 0, 1, 0));
}

TEST_F(PlacerTest, LeastLoadedTakesWhoHasFewest) {
  Placer placer(Placement::LeastLoaded, {1, 1, 1}, 0);
  counts_[0] = 5;
  counts_[1] = 2;
  counts_[2] = 4;
  EXPECT_EQ(place(placer, 1), 1U);
  EXPECT_EQ(place(placer, 2), 1U);
  EXPECT_EQ(place(placer, 3), 1U);  // the first of those with four
}

TEST_F(PlacerTest, AFullWorkerIsPassedOverAndNobodyIsFoundWhenAllAre) {
  for (const Placement strategy :
       {Placement::ConsistentHash, Placement::RoundRobin, Placement::LeastLoaded}) {
    std::fill(counts_.begin(), counts_.end(), 0);
    Placer placer(strategy, {1, 1, 1}, 3);
    for (std::size_t i = 0; i < 9; ++i) ASSERT_TRUE(place(placer, hashOfNumber(i)));
    EXPECT_THAT((std::vector{counts_[0], counts_[1], counts_[2]}), ElementsAre(3, 3, 3));
    EXPECT_FALSE(place(placer, 1));
    --counts_[1];
    EXPECT_EQ(place(placer, 1), 1U);
  }
}

// ---- the dispatcher

class PlacementTest : public DispatchTest {
 protected:
  PlacementTest() {
    config_.queue_size = 0;
    config_.session_idle_time = std::chrono::hours(1);
  }

  std::vector<std::size_t> counts() {
    std::vector<std::size_t> counts;
    for (const WorkerStats& worker : dispatcher().stats().workers) {
      counts.push_back(worker.session_count);
    }
    return counts;
  }
};

TEST_F(PlacementTest, TheBusiestOfTenWorkersHasAtMostAFifthMoreThanTheMean) {
  config_.pool_size = 10;
  start();
  for (int i = 0; i < 100'000; ++i) {
    Task task;
    task.session_id = "user-" + std::to_string(i);
    ASSERT_EQ(dispatcher().submit(std::move(task)), SubmitStatus::Accepted);
  }
  const auto spread = counts();
  EXPECT_EQ(std::accumulate(spread.begin(), spread.end(), std::size_t{0}), 100'000U);
  EXPECT_LE(*std::max_element(spread.begin(), spread.end()), 12'000U);
  EXPECT_EQ(dispatcher().stats().active_sessions, 100'000U);
}

TEST_F(PlacementTest, WeightsOfTheConfigurationCountAndMissingOnesAreOne) {
  config_.pool_size = 3;
  config_.placement = Placement::LeastLoaded;
  config_.weights = {2};
  start();
  for (int i = 0; i < 400; ++i) submit(noting("", std::to_string(i)));
  EXPECT_THAT(counts(), ElementsAre(200, 100, 100));
}

TEST_F(PlacementTest, ASessionTooManyIsRefusedAndItsTaskLeftAlone) {
  config_.pool_size = 2;
  config_.max_sessions = 2;
  start();
  for (const char* session : {"a", "b", "c", "d"}) {
    ASSERT_EQ(submit(noting("", session)), SubmitStatus::Accepted);
  }
  Task fifth = noting("five", "e");
  EXPECT_EQ(dispatcher().submit(std::move(fifth)), SubmitStatus::TooManySessions);
  EXPECT_EQ(fifth.id, "five");
  EXPECT_EQ(fifth.session_id, "e");
  EXPECT_TRUE(fifth.payload.has_value());
  EXPECT_FALSE(dispatcher().session("e"));
  EXPECT_EQ(dispatcher().status("five"), TaskStatus::Unknown);
  // Those that are there go on.
  EXPECT_EQ(submit(noting("again", "a")), SubmitStatus::Accepted);
}

TEST_F(PlacementTest, AForgottenSessionMakesRoomForOneThatWaits) {
  config_.max_sessions = 1;
  config_.session_idle_time = Duration::zero();
  config_.on_full = OnFull::Block;
  start();
  const Latch release = occupy();
  std::thread waiting([&] { EXPECT_EQ(submit(noting("b", "bob")), SubmitStatus::Accepted); });
  EXPECT_EQ(dispatcher().submit(noting("c", "carol"), Duration(0)), SubmitStatus::TooManySessions);
  EXPECT_FALSE(journal_.has("b"));
  release.open();
  waiting.join();
  EXPECT_TRUE(resultOf("b").ok());
}

TEST_F(PlacementTest, ResizingMakesRoomForASessionThatWaits) {
  config_.max_sessions = 1;
  config_.on_full = OnFull::Block;
  start();
  occupy();
  std::thread waiting([&] { EXPECT_EQ(submit(noting("b", "bob")), SubmitStatus::Accepted); });
  dispatcher().resize(2);
  waiting.join();
  EXPECT_TRUE(resultOf("b").ok());
}

}  // namespace
}  // namespace nimbus::dispatch
