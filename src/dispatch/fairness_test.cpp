// Ready sessions are served in turns.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class FairnessTest : public DispatchTest {
 protected:
  FairnessTest() { config_.queue_size = 0; }

  Task counting(const std::string& session, std::atomic<int>& count) {
    return makeTask("", session, [&count](const Task&, const std::stop_token&) {
      count.fetch_add(1, std::memory_order_relaxed);
      return TaskOutcome::ok();
    });
  }

  Task withPriority(Task task, int priority) {
    task.priority = priority;
    return task;
  }
};

TEST_F(FairnessTest, AHundredThousandTasksOfASessionDelayAnothersOneByAQuantum) {
  config_.quantum_tasks = 16;
  start();
  const Latch release = occupy();
  std::atomic<int> ran = 0;
  std::atomic<int> ran_before_single = -1;
  for (int i = 0; i < 100'000; ++i) dispatcher().submit(counting("hog", ran));
  submit(makeTask("single", "other", [&](const Task&, const std::stop_token&) {
    ran_before_single = ran.load();
    return TaskOutcome::ok();
  }));
  release.open();
  resultOf("single");
  EXPECT_LE(ran_before_single, 16);
  EXPECT_TRUE(dispatcher().drain("hog", kLong));
  EXPECT_EQ(ran, 100'000);
}

TEST_F(FairnessTest, ATaskThatComesWhileAHogIsServedWaitsForTheRestOfItsTurnOnly) {
  config_.quantum_tasks = 16;
  start();
  const Latch release = occupy();
  constexpr int kRounds = 20;
  std::atomic<int> ran = 0;
  std::vector<int> delays;
  for (int i = 0; i < 2000; ++i) {
    submit(makeTask("", "hog", [&, i](const Task&, const std::stop_token&) {
      ++ran;
      // At places that fall on every part of a turn.
      if (i % 97 == 0 && i / 97 < kRounds) {
        const int now = ran;
        submit(makeTask("", "other" + std::to_string(i), [&, now](const Task&, const auto&) {
          delays.push_back(ran - now);
          return TaskOutcome::ok();
        }));
      }
      return TaskOutcome::ok();
    }));
  }
  release.open();
  ASSERT_TRUE(dispatcher().drain("hog", kLong));
  dispatcher().shutdown();
  ASSERT_EQ(delays.size(), static_cast<std::size_t>(kRounds));
  EXPECT_LE(*std::max_element(delays.begin(), delays.end()), 16);
}

TEST_F(FairnessTest, ManyHogsEachGetOneTurnBeforeASingleTask) {
  config_.quantum_tasks = 4;
  start();
  const Latch release = occupy();
  constexpr int kHogs = 10;
  std::atomic<int> ran = 0;
  std::atomic<int> ran_before_single = -1;
  for (int i = 0; i < 100; ++i) {
    for (int hog = 0; hog < kHogs; ++hog) submit(counting("hog" + std::to_string(hog), ran));
  }
  submit(makeTask("single", "other", [&](const Task&, const std::stop_token&) {
    ran_before_single = ran.load();
    return TaskOutcome::ok();
  }));
  release.open();
  resultOf("single");
  EXPECT_LE(ran_before_single, 4 * kHogs);
  dispatcher().shutdown();
}

TEST_F(FairnessTest, ReadySessionsTakeTurnsOfTheQuantum) {
  config_.quantum_tasks = 2;
  start();
  const Latch release = occupy();
  for (int i = 1; i <= 4; ++i) submit(noting("a" + std::to_string(i), "alice"));
  for (int i = 1; i <= 3; ++i) submit(noting("b" + std::to_string(i), "bob"));
  submit(noting("c1", "carol"));
  release.open();
  ASSERT_TRUE(journal_.waitForSize(9));
  EXPECT_THAT(journal_.entries(),
              ElementsAre("occupied", "a1", "a2", "b1", "b2", "c1", "a3", "a4", "b3"));
}

TEST_F(FairnessTest, ATurnEndsByTimeToo) {
  config_.quantum_tasks = 1000;
  config_.quantum_time = Duration::zero();
  start();
  const Latch release = occupy();
  for (int i = 1; i <= 3; ++i) submit(noting("a" + std::to_string(i), "alice"));
  for (int i = 1; i <= 2; ++i) submit(noting("b" + std::to_string(i), "bob"));
  release.open();
  ASSERT_TRUE(journal_.waitForSize(6));
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "b1", "a2", "b2", "a3"));
}

TEST_F(FairnessTest, AHigherPriorityGoesFirst) {
  start();
  const Latch release = occupy();
  submit(withPriority(noting("low", "l"), -3));
  submit(noting("normal", "n"));
  submit(withPriority(noting("high", "h"), 2));
  submit(withPriority(noting("beyond", "b"), 100));
  submit(withPriority(noting("highest", "hh"), 3));
  submit(withPriority(noting("below", "bb"), -100));
  release.open();
  ASSERT_TRUE(journal_.waitForSize(7));
  EXPECT_THAT(journal_.entries(),
              ElementsAre("occupied", "beyond", "highest", "high", "normal", "low", "below"));
}

TEST_F(FairnessTest, PriorityDoesNotReorderASession) {
  start();
  const Latch release = occupy();
  submit(withPriority(noting("a1", "alice"), -3));
  submit(withPriority(noting("a2", "alice"), 3));
  submit(noting("b1", "bob"));
  release.open();
  ASSERT_TRUE(journal_.waitForSize(4));
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "b1", "a1", "a2"));
}

TEST_F(FairnessTest, ALowPriorityDoesNotStarve) {
  config_.quantum_tasks = 1;
  start();
  const Latch release = occupy();
  std::atomic<int> ran = 0;
  std::atomic<int> ran_before = -1;
  for (int i = 0; i < 10'000; ++i) dispatcher().submit(withPriority(counting("high", ran), 3));
  submit(withPriority(makeTask("low", "low",
                               [&](const Task&, const std::stop_token&) {
                                 ran_before = ran.load();
                                 return TaskOutcome::ok();
                               }),
                      -3));
  release.open();
  resultOf("low");
  EXPECT_LT(ran_before, 200);
  dispatcher().shutdown();
}

}  // namespace
}  // namespace nimbus::dispatch
