// A handler that takes too long has failed, and holds up nobody but its session.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>
#include <map>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::Not;

class TimeoutTest : public DispatchTest {
 protected:
  TimeoutTest() {
    config_.task_timeout = std::chrono::milliseconds(1);
    config_.stop_grace = std::chrono::milliseconds(1);
  }

  std::size_t stuckTasks() { return dispatcher().stats().workers.at(0).stuck_tasks; }
};

TEST_F(TimeoutTest, AHandlerIsToldToStopAndItsTaskHasTimedOutWhateverItAnswers) {
  config_.stop_grace = std::chrono::hours(1);
  start();
  submit(obedient("a1", "alice"));
  const TaskResult result = resultOf("a1");
  EXPECT_EQ(result.error->code, TaskError::Code::TimedOut);
  EXPECT_GE(result.duration, std::chrono::milliseconds(1));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Failed);
  EXPECT_EQ(dispatcher().stats().total_failed, 1U);
}

TEST_F(TimeoutTest, ATaskMayHaveALimitOfItsOwn) {
  config_.task_timeout = std::chrono::hours(1);
  start();
  Task task = obedient("a1", "alice");
  task.timeout = std::chrono::milliseconds(1);
  submit(std::move(task));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
}

TEST_F(TimeoutTest, ZeroMeansNoLimit) {
  start();
  const Latch release = latch();
  Task unlimited = blocking("a1", "alice", release);
  unlimited.timeout = Duration::zero();
  submit(std::move(unlimited));
  // Another one, later, has run out of time long before the first one ends.
  submit(obedient("b1", "bob"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Running);
  release.open();
  EXPECT_TRUE(resultOf("a1").ok());
  EXPECT_EQ(errorOf("b1"), TaskError::Code::TimedOut);
}

TEST_F(TimeoutTest, AHandlerThatIgnoresItHasFailedBeforeItReturns) {
  start();
  dispatcher().onResult(
      [this](const TaskResult& result) { journal_.add(result.task_id + " end"); });
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  EXPECT_FALSE(release.isOpen());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Failed);
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  // Its return adds nothing.
  EXPECT_THAT(journal_.entries(), ElementsAre("a1", "a1 end"));
  EXPECT_EQ(dispatcher().stats().total_failed, 1U);
  EXPECT_EQ(dispatcher().stats().total_completed, 0U);
  EXPECT_EQ(resultOf("a1").error->code, TaskError::Code::TimedOut);
}

TEST_F(TimeoutTest, AHandlerThatIgnoresItHoldsUpItsSessionOnly) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  submit(noting("b1", "bob"));
  // There is one worker, and it is in a1.
  EXPECT_TRUE(resultOf("b1").ok());
  submit(noting("b2", "bob"));
  EXPECT_TRUE(resultOf("b2").ok());
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_EQ(dispatcher().session("alice")->unfinished_tasks, 2U);

  release.open();
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("a1", "b1", "b2", "a2"));
}

TEST_F(TimeoutTest, AStuckHandlerIsSeenInTheStats) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  ASSERT_TRUE(eventually([&] { return stuckTasks() == 1; }));
  const WorkerStats stats = dispatcher().stats().workers.at(0);
  EXPECT_EQ(stats.running_tasks, 1U);
  EXPECT_GE(stats.stuck_time, config_.stop_grace);
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(stuckTasks(), 0U);
  EXPECT_EQ(dispatcher().stats().workers.at(0).stuck_time, Duration::zero());
  EXPECT_EQ(dispatcher().stats().workers.at(0).running_tasks, 0U);
}

TEST_F(TimeoutTest, SeveralSessionsMayBeStuckAtOnce) {
  start();
  const Latch release = latch();
  for (int i = 0; i < 5; ++i) {
    const std::string session = "s" + std::to_string(i);
    submit(blocking(session, session, release));
    submit(noting(session + " next", session));
  }
  ASSERT_TRUE(eventually([&] { return stuckTasks() == 5; }));
  Task quick = noting("quick", "other");
  quick.timeout = Duration::zero();
  submit(std::move(quick));
  EXPECT_TRUE(resultOf("quick").ok());
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(journal_.has("s" + std::to_string(i) + " next"));
  release.open();
  for (int i = 0; i < 5; ++i) {
    ASSERT_TRUE(journal_.waitFor("s" + std::to_string(i) + " next"));
  }
}

TEST_F(TimeoutTest, AStuckSessionCanBeCancelledBehindItsHead) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  submit(noting("a3", "alice"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  EXPECT_FALSE(dispatcher().cancel("a1"));
  EXPECT_TRUE(dispatcher().cancel("a2"));
  release.open();
  resultOf("a3");
  EXPECT_THAT(journal_.entries(), ElementsAre("a1", "a3"));
}

TEST_F(TimeoutTest, StuckAndUnstuckAreLogged) {
  Journal log;
  config_.log_level = LogLevel::Warning;
  config_.log = [log](const LogEvent& event) {
    log.add(std::string(event.what) + " " + std::string(event.task_id));
  };
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  EXPECT_TRUE(log.waitFor("task stuck a1"));
  EXPECT_FALSE(log.has("task unstuck a1"));
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_TRUE(log.has("task unstuck a1"));
}

TEST_F(TimeoutTest, AWorkerCanLeaveAlthoughAHandlerWasStuckOnIt) {
  config_.pool_size = 2;
  config_.placement = Placement::RoundRobin;
  start();
  const Latch release = latch();
  submit(noting("a1", "alice"));
  submit(blocking("b1", "bob", release));
  EXPECT_EQ(errorOf("b1"), TaskError::Code::TimedOut);
  dispatcher().resize(1);
  EXPECT_EQ(dispatcher().stats().workers.size(), 2U);
  release.open();
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().workers.size() == 1; }));
}

TEST_F(TimeoutTest, ManyThatOverrunByAHairEndOnceEach) {
  config_.queue_size = 0;
  config_.task_timeout = std::chrono::microseconds(50);
  config_.stop_grace = Duration::zero();
  config_.pool_size = 2;
  start();
  std::mutex mutex;
  std::map<std::string, int> ends;
  dispatcher().onResult([&](const TaskResult& result) {
    const std::lock_guard lock(mutex);
    ++ends[result.task_id];
  });
  std::vector<std::vector<int>> started(8);
  std::vector<std::atomic<int>> inside(8);
  std::atomic<bool> overlapped = false;
  for (int i = 0; i < 800; ++i) {
    const auto s = static_cast<std::size_t>(i % 8);
    submit(makeTask(std::to_string(i), std::to_string(s), [&, s, i](const Task&, const auto&) {
      if (inside[s].fetch_add(1) != 0) overlapped = true;
      started[s].push_back(i);
      const auto until = std::chrono::steady_clock::now() + std::chrono::microseconds(40 + i % 20);
      while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
      inside[s].fetch_sub(1);
      return TaskOutcome::ok();
    }));
  }
  for (int s = 0; s < 8; ++s) ASSERT_TRUE(dispatcher().drain(std::to_string(s), kLong));
  EXPECT_FALSE(overlapped);
  for (const auto& line : started) {
    EXPECT_EQ(line.size(), 100U);
    EXPECT_TRUE(std::is_sorted(line.begin(), line.end()));
  }
  const std::lock_guard lock(mutex);
  EXPECT_EQ(ends.size(), 800U);
  for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << id;
}

}  // namespace
}  // namespace nimbus::dispatch
