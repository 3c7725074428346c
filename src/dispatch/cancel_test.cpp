// Cancelling: what waits never runs, what runs is told to stop.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class CancelTest : public DispatchTest {};

TEST_F(CancelTest, AQueuedTaskNeverRuns) {
  start();
  dispatcher().onResult([this](const TaskResult& result) {
    if (!result.ok()) journal_.add(result.task_id + " cancelled");
  });
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  submit(noting("a3", "alice"));
  EXPECT_TRUE(dispatcher().cancel("a2"));
  const TaskResult result = resultOf("a2");
  EXPECT_EQ(result.error->code, TaskError::Code::Cancelled);
  EXPECT_EQ(result.attempts, 0U);
  EXPECT_EQ(dispatcher().stats().queued_tasks, 2U);
  EXPECT_EQ(dispatcher().stats().total_cancelled, 1U);
  EXPECT_FALSE(dispatcher().cancel("a2"));
  release.open();
  resultOf("a3");
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a2 cancelled", "a1", "a3"));
}

TEST_F(CancelTest, ARunningTaskIsToldToStopAndIsCancelledWhateverItAnswers) {
  start();
  submit(obedient("a1", "alice"));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  const TaskResult result = resultOf("a1");
  EXPECT_EQ(result.error->code, TaskError::Code::Cancelled);
  EXPECT_EQ(result.attempts, 1U);
  EXPECT_FALSE(result.value.has_value());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Cancelled);
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(CancelTest, ACancelledTaskIsNotTriedAgain) {
  config_.retry.max_attempts = 5;
  config_.retry.backoff = std::chrono::milliseconds(1);
  start();
  std::atomic<int> runs = 0;
  submit(makeTask("a1", "alice", [&](const Task&, const std::stop_token& stop) {
    ++runs;
    journal_.add("a1");
    waitForStop(stop);
    return TaskOutcome::fail("told to stop");
  }));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
  EXPECT_EQ(runs, 1);
}

TEST_F(CancelTest, CancellingTwiceIsCancellingOnce) {
  start();
  dispatcher().onResult(
      [this](const TaskResult& result) { journal_.add(result.task_id + " end"); });
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  dispatcher().cancel("a1");
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
  EXPECT_FALSE(dispatcher().cancel("a1"));
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_THAT(journal_.entries(), ElementsAre("a1", "a1 end"));
  EXPECT_EQ(dispatcher().stats().total_cancelled, 1U);
}

TEST_F(CancelTest, AHandlerThatIgnoresItHoldsUpItsSessionOnly) {
  config_.stop_grace = std::chrono::milliseconds(1);
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
  submit(noting("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_FALSE(journal_.has("a2"));
  release.open();
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(CancelTest, WhatHasEndedOrIsNotKnownCannotBeCancelled) {
  start();
  submit(noting("a1", "alice"));
  submit(failing("a2", "alice"));
  resultOf("a2");
  EXPECT_FALSE(dispatcher().cancel("a1"));
  EXPECT_FALSE(dispatcher().cancel("a2"));
  EXPECT_FALSE(dispatcher().cancel("nobody"));
  EXPECT_TRUE(resultOf("a1").ok());
  EXPECT_EQ(dispatcher().stats().total_cancelled, 0U);
}

TEST_F(CancelTest, WhenAllItsTasksAreCancelledASessionIsForgottenAsUsual) {
  config_.session_idle_time = Duration::zero();
  start();
  const Latch release = occupy();
  for (int i = 0; i < 5; ++i) submit(noting("a" + std::to_string(i), "alice"));
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(dispatcher().cancel("a" + std::to_string(i)));
  release.open();
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().active_sessions == 0; }));
  submit(noting("again", "alice"));
  EXPECT_TRUE(resultOf("again").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "again"));
}

TEST_F(CancelTest, ASessionWhoseTasksWereCancelledGoesOnWithNewOnes) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  submit(noting("a2", "alice"));
  EXPECT_TRUE(dispatcher().cancel("a2"));
  submit(noting("a3", "alice"));
  release.open();
  EXPECT_TRUE(resultOf("a3").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a3"));
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(dispatcher().session("alice")->unfinished_tasks, 0U);
}

// A cancelled head leaves its turn behind; the one that follows may not be ready for it.
TEST_F(CancelTest, ATaskThatWaitsForAnotherDoesNotStartInTheTurnOfACancelledOne) {
  config_.pool_size = 2;
  config_.placement = Placement::RoundRobin;
  start();
  const Latch release = occupy();
  const Latch other = latch();
  submit(blocking("b1", "bob", other));  // on the other worker
  ASSERT_TRUE(journal_.waitFor("b1"));
  submit(noting("a1", "alice"));
  Task waiting = noting("a2", "alice");
  waiting.depends_on = {"b1"};
  submit(std::move(waiting));
  ASSERT_EQ(dispatcher().session("alice")->worker_id, dispatcher().session("occupier")->worker_id);
  dispatcher().stats();  // all are in their lines now
  ASSERT_TRUE(dispatcher().cancel("a1"));
  submit(noting("o2", "occupier"));
  release.open();
  resultOf("o2");
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_FALSE(journal_.has("a2"));
  other.open();
  EXPECT_TRUE(resultOf("a2").ok());
}

// The callback says what has ended before anything that comes after it begins.
TEST_F(CancelTest, TheNextTaskDoesNotStartBeforeTheCancelledOneIsReported) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  submit(noting("z", "zoe"));
  dispatcher().stats();  // all are in their lines now, alice before zoe
  dispatcher().onResult([&, release](const TaskResult& result) {
    if (result.task_id != "a1") return;
    release.open();
    resultOf("z");  // whose turn is after alice's
    journal_.add("a1 reported");
  });
  EXPECT_TRUE(dispatcher().cancel("a1"));
  resultOf("a2");
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "z", "a1 reported", "a2"));
}

TEST_F(CancelTest, ATaskInTheMiddleIsReportedBeforeTheOneBehindItStarts) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  submit(noting("a3", "alice"));
  submit(noting("z", "zoe"));
  dispatcher().stats();
  dispatcher().onResult([&, release](const TaskResult& result) {
    if (result.task_id != "a2") return;
    release.open();
    resultOf("z");
    journal_.add("a2 reported");
  });
  EXPECT_TRUE(dispatcher().cancel("a2"));
  resultOf("a3");
  const auto entries = journal_.entries();
  const auto place = [&](const char* entry) {
    return std::find(entries.begin(), entries.end(), entry) - entries.begin();
  };
  EXPECT_LT(place("a2 reported"), place("a3"));
}

TEST_F(CancelTest, ARaceOfCancelAndRunEndsEachTaskOnce) {
  config_.queue_size = 0;
  config_.pool_size = 2;
  start();
  std::atomic<int> ends = 0;
  std::atomic<int> cancelled_ends = 0;
  std::atomic<int> runs = 0;
  dispatcher().onResult([&](const TaskResult& result) {
    ++ends;
    if (!result.ok()) ++cancelled_ends;
  });
  constexpr int kTasks = 2000;
  std::atomic<int> cancels = 0;
  std::thread canceller([&] {
    for (int i = 0; i < kTasks; ++i) {
      if (dispatcher().cancel(std::to_string(i))) ++cancels;
    }
  });
  for (int i = 0; i < kTasks; ++i) {
    submit(makeTask(std::to_string(i), std::to_string(i % 7), [&](const Task&, const auto&) {
      ++runs;
      return TaskOutcome::ok();
    }));
  }
  canceller.join();
  for (int s = 0; s < 7; ++s) ASSERT_TRUE(dispatcher().drain(std::to_string(s), kLong));
  EXPECT_EQ(ends, kTasks);
  EXPECT_EQ(cancels, cancelled_ends);
  EXPECT_GE(runs, kTasks - cancels);
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.total_completed + stats.total_cancelled, static_cast<std::uint64_t>(kTasks));
}

}  // namespace
}  // namespace nimbus::dispatch
