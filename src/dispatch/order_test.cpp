// Within a session: first come, first served, one at a time.

#include "dispatch/testing/fixture.h"

#include <atomic>
#include <map>
#include <semaphore>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class OrderTest : public DispatchTest {};

TEST_F(OrderTest, ASessionsTasksRunInTheOrderOfTheirSubmits) {
  config_.pool_size = 4;
  config_.queue_size = 0;
  start();
  std::vector<std::string> expected;
  for (int i = 0; i < 1000; ++i) {
    expected.push_back(std::to_string(i));
    ASSERT_EQ(submit(noting(expected.back(), "alice")), SubmitStatus::Accepted);
  }
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(journal_.entries(), expected);
}

TEST_F(OrderTest, ATaskStartsOnlyWhenTheOneBeforeItHasEnded) {
  config_.pool_size = 2;
  start();
  const Latch first = latch();
  submit(makeTask("a1", "alice", [&, first](const Task&, const std::stop_token&) {
    journal_.add("a1 starts");
    first.wait();
    journal_.add("a1 ends");
    return TaskOutcome::ok();
  }));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1 starts"));
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_EQ(dispatcher().session("alice")->unfinished_tasks, 2U);
  EXPECT_THAT(journal_.entries(), ElementsAre("a1 starts"));

  first.open();
  resultOf("a2");
  EXPECT_THAT(journal_.entries(), ElementsAre("a1 starts", "a1 ends", "a2"));
}

TEST_F(OrderTest, ASessionIsNotHeldUpByAnotherOnAnotherWorker) {
  config_.pool_size = 2;
  config_.placement = Placement::RoundRobin;
  start();
  const Latch alice = latch();
  submit(blocking("a1", "alice", alice));
  ASSERT_TRUE(journal_.waitFor("a1"));
  submit(noting("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Running);
}

TEST_F(OrderTest, ASubmitThatReturnedBeforeAnotherBeganComesFirstWhateverTheThread) {
  config_.pool_size = 2;
  config_.queue_size = 0;
  start();
  constexpr int kRounds = 500;
  std::binary_semaphore turn_of_even(1);
  std::binary_semaphore turn_of_odd(0);
  const auto play = [&](int parity, std::binary_semaphore& mine, std::binary_semaphore& theirs) {
    for (int i = parity; i < kRounds; i += 2) {
      mine.acquire();
      submit(noting(std::to_string(i), "alice"));
      theirs.release();
    }
  };
  std::thread even([&] { play(0, turn_of_even, turn_of_odd); });
  std::thread odd([&] { play(1, turn_of_odd, turn_of_even); });
  even.join();
  odd.join();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));

  std::vector<std::string> expected;
  for (int i = 0; i < kRounds; ++i) expected.push_back(std::to_string(i));
  EXPECT_EQ(journal_.entries(), expected);
}

TEST_F(OrderTest, SeveralThreadsThatSubmitKeepEachItsOwnOrderAndNothingOverlaps) {
  constexpr int kThreads = 4;
  constexpr int kSessions = 5;
  constexpr int kTasks = 400;
  config_.pool_size = 3;
  config_.queue_size = 0;
  start();

  struct Line {
    std::atomic<int> inside = 0;
    std::vector<std::pair<int, int>> started;  // which thread's, which of its tasks
  };
  std::vector<Line> lines(kSessions);
  std::atomic<bool> overlapped = false;
  const auto submitAll = [&](int thread) {
    for (int i = 0; i < kTasks; ++i) {
      const int session = i % kSessions;
      submit(makeTask("", std::to_string(session),
                      [&, session, thread, i](const Task&, const std::stop_token&) {
                        Line& line = lines[static_cast<std::size_t>(session)];
                        if (line.inside.fetch_add(1) != 0) overlapped = true;
                        line.started.emplace_back(thread, i);
                        line.inside.fetch_sub(1);
                        return TaskOutcome::ok();
                      }));
    }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) threads.emplace_back(submitAll, t);
  for (std::thread& thread : threads) thread.join();
  for (int s = 0; s < kSessions; ++s) ASSERT_TRUE(dispatcher().drain(std::to_string(s), kLong));

  EXPECT_FALSE(overlapped);
  for (const Line& line : lines) {
    EXPECT_EQ(line.started.size(), static_cast<std::size_t>(kThreads * kTasks / kSessions));
    std::map<int, int> latest;
    for (const auto& [thread, task] : line.started) {
      const auto [before, first] = latest.try_emplace(thread, -1);
      EXPECT_LT(before->second, task);
      before->second = task;
    }
  }
}

TEST_F(OrderTest, ATaskThatAHandlerSubmitsToItsOwnSessionRunsAfterWhatWaitedBefore) {
  start();
  const Latch release = occupy();
  submit(makeTask("a1", "alice", [&](const Task&, const std::stop_token&) {
    journal_.add("a1");
    submit(noting("a3", "alice"));
    return TaskOutcome::ok();
  }));
  submit(noting("a2", "alice"));
  release.open();
  ASSERT_TRUE(journal_.waitFor("a3"));
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "a2", "a3"));
}

TEST_F(OrderTest, AnyBytesAreASessionsNameTheEmptyOneToo) {
  start();
  const std::string strange("a\0b", 3);
  submit(noting("1", ""));
  submit(noting("2", strange));
  submit(noting("3", "a"));
  EXPECT_EQ(resultOf("1").session_id, "");
  EXPECT_EQ(resultOf("2").session_id, strange);
  EXPECT_EQ(resultOf("3").session_id, "a");
  EXPECT_EQ(dispatcher().stats().active_sessions, 3U);
}

}  // namespace
}  // namespace nimbus::dispatch
