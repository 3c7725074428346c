// What a dispatcher says about itself.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>

namespace nimbus::dispatch {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Not;

class StatsTest : public DispatchTest {
 protected:
  void logTo(const Journal& log, LogLevel level) {
    config_.log_level = level;
    config_.log = [log](const LogEvent& event) {
      std::string line(event.what);
      for (const auto part : {event.worker_id, event.session_id, event.task_id, event.detail}) {
        line += "|" + std::string(part);
      }
      log.add(line);
    };
  }
};

TEST_F(StatsTest, ANewDispatcherHasNothing) {
  config_.pool_size = 2;
  start();
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.total_submitted, 0U);
  EXPECT_EQ(stats.active_sessions, 0U);
  EXPECT_EQ(stats.queued_tasks, 0U);
  ASSERT_EQ(stats.workers.size(), 2U);
  EXPECT_EQ(stats.workers[0].worker_id, "worker-0");
  EXPECT_EQ(stats.workers[1].worker_id, "worker-1");
  EXPECT_EQ(stats.workers[0].avg_task_duration, Duration::zero());
  EXPECT_EQ(stats.workers[0].queue_age, Duration::zero());
  EXPECT_EQ(stats.workers[0].queue_capacity, config_.queue_size);
}

TEST_F(StatsTest, SuccessesFailuresAndCancellationsAreCountedApart) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(failing("a2", "alice"));
  submit(noting("a3", "alice"));
  dispatcher().cancel("a3");
  release.open();
  resultOf("a2");
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.total_submitted, 4U);
  EXPECT_EQ(stats.total_completed, 2U);
  EXPECT_EQ(stats.total_failed, 1U);
  EXPECT_EQ(stats.total_cancelled, 1U);
  EXPECT_EQ(stats.total_not_run, 0U);
  EXPECT_EQ(stats.total_retries, 0U);
  EXPECT_EQ(stats.active_sessions, 2U);
  EXPECT_EQ(stats.workers[0].session_count, 2U);
  EXPECT_EQ(stats.workers[0].tasks_processed, 3U);
  EXPECT_EQ(stats.workers[0].tasks_failed, 1U);
}

TEST_F(StatsTest, TheLineAndItsAgeAreSeen) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  const WorkerStats first = dispatcher().stats().workers[0];
  EXPECT_EQ(first.queue_length, 2U);
  EXPECT_EQ(first.running_tasks, 1U);
  EXPECT_GT(first.queue_age, Duration::zero());
  EXPECT_GT(dispatcher().stats().workers[0].queue_age, first.queue_age);
  EXPECT_EQ(dispatcher().session("alice")->unfinished_tasks, 2U);
  release.open();
  resultOf("a2");
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(dispatcher().stats().workers[0].queue_length, 0U);
  EXPECT_EQ(dispatcher().stats().workers[0].queue_age, Duration::zero());
}

TEST_F(StatsTest, TheAverageIsOverAllAttempts) {
  config_.retry = {.max_attempts = 3, .backoff = Duration::zero()};
  start();
  submit(makeTask("a1", "alice", [](const Task&, const std::stop_token&) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
    while (std::chrono::steady_clock::now() < until) {
    }
    return TaskOutcome::fail("");
  }));
  resultOf("a1");
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_GE(dispatcher().stats().workers[0].avg_task_duration, std::chrono::milliseconds(2));
  EXPECT_GE(resultOf("a1").duration, std::chrono::milliseconds(2));
  EXPECT_EQ(dispatcher().stats().workers[0].tasks_processed, 1U);
}

TEST_F(StatsTest, TotalsOutliveTheirWorkers) {
  config_.pool_size = 3;
  config_.placement = Placement::RoundRobin;
  start();
  for (int i = 0; i < 9; ++i) submit(noting(std::to_string(i), std::to_string(i)));
  for (int i = 0; i < 9; ++i) resultOf(std::to_string(i));
  dispatcher().resize(1);
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().workers.size() == 1; }));
  EXPECT_EQ(dispatcher().stats().total_completed, 9U);
  EXPECT_EQ(dispatcher().stats().total_submitted, 9U);
}

TEST_F(StatsTest, NothingIsSaidOfASessionThatIsNotActive) {
  start();
  EXPECT_FALSE(dispatcher().session("alice"));
}

TEST_F(StatsTest, WhatHappensIsLogged) {
  const Journal log;
  logTo(log, LogLevel::Debug);
  start();
  submit(noting("a1", "alice"));
  resultOf("a1");
  submit(failing("a2", "alice", "why"));
  resultOf("a2");
  dispatcher().shutdown();
  const auto entries = log.entries();
  EXPECT_THAT(entries, Contains("resized||||"));
  EXPECT_THAT(entries, Contains("worker started|worker-0|||"));
  EXPECT_THAT(entries, Contains("task accepted|worker-0|alice|a1|"));
  EXPECT_THAT(entries, Contains("task done|worker-0|alice|a1|"));
  EXPECT_THAT(entries, Contains("task failed|worker-0|alice|a2|why"));
  EXPECT_THAT(entries, Contains("shutdown||||"));
  EXPECT_THAT(entries, Contains("worker stopped|worker-0|||"));
}

TEST_F(StatsTest, NothingBelowItsLevelIsLogged) {
  const Journal log;
  logTo(log, LogLevel::Warning);
  start();
  submit(noting("a1", "alice"));
  submit(failing("a2", "alice", "why"));
  resultOf("a2");
  dispatcher().shutdown();
  EXPECT_THAT(log.entries(), ElementsAre("task failed|worker-0|alice|a2|why"));
}

TEST_F(StatsTest, OffIsOff) {
  const Journal log;
  logTo(log, LogLevel::Off);
  start();
  submit(failing("a2", "alice", "why"));
  resultOf("a2");
  dispatcher().shutdown();
  EXPECT_THAT(log.entries(), IsEmpty());
}

TEST_F(StatsTest, TheLogIsCalledWithNoLockHeld) {
  config_.log_level = LogLevel::Debug;
  config_.task_timeout = std::chrono::milliseconds(1);
  config_.stop_grace = std::chrono::milliseconds(1);
  std::atomic<int> calls = 0;
  config_.log = [&](const LogEvent& event) {
    if (event.what == "resized" || event.what == "worker started") return;  // it is being made
    dispatcher().stats();
    dispatcher().session(event.session_id);
    dispatcher().status(event.task_id);
    dispatcher().cancel("nobody");
    ++calls;
  };
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(failing("a2", "alice"));
  resultOf("a1");
  release.open();
  resultOf("a2");
  dispatcher().shutdown();
  EXPECT_GE(calls, 6);
}

}  // namespace
}  // namespace nimbus::dispatch
