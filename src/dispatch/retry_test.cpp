// A failed task is tried again, and its session waits.

#include "dispatch/testing/fixture.h"

#include <atomic>
#include <stdexcept>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class RetryTest : public DispatchTest {
 protected:
  RetryTest() { config_.retry = {.max_attempts = 3, .backoff = std::chrono::milliseconds(1)}; }

  // Fails until it has run so often.
  Task failingUntil(std::string id, std::string session, int success) {
    auto runs = std::make_shared<std::atomic<int>>(0);
    return makeTask(std::move(id), std::move(session),
                    [this, runs, success](const Task& task, const std::stop_token&) {
                      const int run = ++*runs;
                      journal_.add(task.id + "#" + std::to_string(run));
                      return run < success ? TaskOutcome::fail("not yet") : TaskOutcome::ok(run);
                    });
  }
};

TEST_F(RetryTest, AFailedTaskIsTriedAgainUntilItSucceeds) {
  start();
  submit(failingUntil("a", "alice", 3));
  const TaskResult result = resultOf("a");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.attempts, 3U);
  EXPECT_EQ(std::any_cast<int>(result.value), 3);
  EXPECT_EQ(dispatcher().stats().total_retries, 2U);
  EXPECT_EQ(dispatcher().stats().total_completed, 1U);
  EXPECT_EQ(dispatcher().stats().total_failed, 0U);
}

TEST_F(RetryTest, WhenAttemptsRunOutTheLastErrorIsTheResult) {
  start();
  submit(failingUntil("a", "alice", 4));
  const TaskResult result = resultOf("a");
  EXPECT_EQ(result.error->code, TaskError::Code::Failed);
  EXPECT_EQ(result.attempts, 3U);
  EXPECT_THAT(journal_.entries(), ElementsAre("a#1", "a#2", "a#3"));
}

TEST_F(RetryTest, AThrowIsTriedAgain) {
  start();
  std::atomic<int> runs = 0;
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token&) -> TaskOutcome {
    if (++runs < 3) throw std::runtime_error("broken");
    return TaskOutcome::ok();
  }));
  EXPECT_TRUE(resultOf("a").ok());
  EXPECT_EQ(runs, 3);
}

TEST_F(RetryTest, ARejectIsNotTriedAgain) {
  start();
  std::atomic<int> runs = 0;
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token&) {
    ++runs;
    return TaskOutcome::reject("never");
  }));
  EXPECT_EQ(resultOf("a").attempts, 1U);
  EXPECT_EQ(runs, 1);
}

TEST_F(RetryTest, NoLaterTaskOfTheSessionPassesOneThatIsTriedAgain) {
  start();
  submit(failingUntil("a1", "alice", 3));
  submit(failingUntil("a2", "alice", 2));
  submit(noting("a3", "alice"));
  resultOf("a3");
  EXPECT_THAT(journal_.entries(), ElementsAre("a1#1", "a1#2", "a1#3", "a2#1", "a2#2", "a3"));
}

TEST_F(RetryTest, OtherSessionsGoOnDuringThePause) {
  config_.retry.backoff = std::chrono::hours(1);
  config_.retry.max_backoff = std::chrono::hours(1);
  start();
  submit(failingUntil("a1", "alice", 2));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1#1"));
  submit(noting("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Pending);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_FALSE(journal_.has("a2"));
  dispatcher().shutdown(Duration::zero());
}

TEST_F(RetryTest, ATaskIsCancelledDuringThePauseAndTheNextOneRuns) {
  config_.retry.backoff = std::chrono::hours(1);
  config_.retry.max_backoff = std::chrono::hours(1);
  start();
  submit(failingUntil("a1", "alice", 2));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().total_retries == 1; }));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
  EXPECT_EQ(resultOf("a1").attempts, 1U);
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("a1#1", "a2"));
}

TEST_F(RetryTest, AHandlerThatTimedOutIsTriedAgain) {
  config_.task_timeout = std::chrono::milliseconds(1);
  config_.stop_grace = std::chrono::hours(1);
  start();
  std::atomic<int> runs = 0;
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token& stop) {
    if (++runs == 1) waitForStop(stop);
    return TaskOutcome::ok();
  }));
  const TaskResult result = resultOf("a");
  // The second attempt may be slow on a slow machine, and then there is a third.
  EXPECT_GE(result.attempts, 2U);
  EXPECT_GE(runs, 2);
}

TEST_F(RetryTest, AStuckHandlerIsTriedAgainOnlyAfterItHasReturned) {
  config_.retry.max_attempts = 2;
  config_.stop_grace = std::chrono::milliseconds(1);
  start();
  const Latch release = latch();
  std::atomic<int> runs = 0;
  std::atomic<int> inside = 0;
  std::atomic<bool> overlapped = false;
  Task stubborn = makeTask("a", "alice", [&, release](const Task&, const std::stop_token&) {
    if (inside.fetch_add(1) != 0) overlapped = true;
    ++runs;
    release.wait();
    inside.fetch_sub(1);
    return TaskOutcome::ok();
  });
  stubborn.timeout = std::chrono::milliseconds(1);
  submit(std::move(stubborn));
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().workers[0].stuck_tasks == 1; }));
  Task quick = noting("b", "bob");
  quick.timeout = Duration::zero();
  submit(std::move(quick));
  EXPECT_TRUE(resultOf("b").ok());
  EXPECT_EQ(dispatcher().status("a"), TaskStatus::Running);
  EXPECT_EQ(runs, 1);
  release.open();
  resultOf("a");
  EXPECT_EQ(runs, 2);
  EXPECT_FALSE(overlapped);
}

TEST_F(RetryTest, ATimedOutTaskWithAttemptsLeftCanStillBeCancelled) {
  config_.stop_grace = std::chrono::hours(1);
  start();
  const Latch release = latch();
  const Latch told = latch();
  Task task = makeTask("a", "alice", [=, this](const Task&, const std::stop_token& stop) {
    journal_.add("a");
    waitForStop(stop);
    told.open();
    release.wait();
    return TaskOutcome::ok();
  });
  task.timeout = std::chrono::milliseconds(1);
  submit(std::move(task));
  ASSERT_TRUE(told.wait());
  EXPECT_TRUE(dispatcher().cancel("a"));
  release.open();
  EXPECT_EQ(errorOf("a"), TaskError::Code::Cancelled);
  EXPECT_THAT(journal_.entries(), ElementsAre("a"));
}

TEST_F(RetryTest, AStuckTaskWithAttemptsLeftCanStillBeCancelled) {
  config_.stop_grace = std::chrono::milliseconds(1);
  start();
  const Latch release = latch();
  Task task = blocking("a", "alice", release);
  task.timeout = std::chrono::milliseconds(1);
  submit(std::move(task));
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().workers[0].stuck_tasks == 1; }));
  EXPECT_TRUE(dispatcher().cancel("a"));
  EXPECT_EQ(errorOf("a"), TaskError::Code::Cancelled);
  EXPECT_EQ(dispatcher().stats().workers[0].stuck_tasks, 1U);
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_THAT(journal_.entries(), ElementsAre("a"));
  EXPECT_EQ(dispatcher().stats().workers[0].stuck_tasks, 0U);
}

TEST_F(RetryTest, EachPauseIsLongerThanTheOneBeforeUpToALimit) {
  config_.retry = {.max_attempts = 5,
                   .backoff = std::chrono::milliseconds(2),
                   .factor = 2,
                   .max_backoff = std::chrono::milliseconds(4),
                   .jitter = 0};
  start();
  using Clock = std::chrono::steady_clock;
  std::vector<Clock::time_point> starts;
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token&) {
    starts.push_back(Clock::now());
    return TaskOutcome::fail("");
  }));
  resultOf("a");
  ASSERT_EQ(starts.size(), 5U);
  const int least[] = {2, 4, 4, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_GE(starts[i + 1] - starts[i], std::chrono::milliseconds(least[i]));
  }
}

TEST_F(RetryTest, ARetryIsLogged) {
  Journal log;
  config_.log_level = LogLevel::Warning;
  config_.log = [log](const LogEvent& event) {
    log.add(std::string(event.what) + " " + std::string(event.task_id));
  };
  start();
  submit(failingUntil("a", "alice", 2));
  resultOf("a");
  EXPECT_THAT(log.entries(), ElementsAre("task retried a"));
}

TEST_F(RetryTest, APausedSessionDoesNotTryAgain) {
  start();
  const Latch first = latch();
  std::atomic<int> runs = 0;
  submit(makeTask("a", "alice", [&, first](const Task&, const std::stop_token&) {
    if (++runs == 1) {
      journal_.add("first");
      first.wait();
      return TaskOutcome::fail("");
    }
    return TaskOutcome::ok();
  }));
  ASSERT_TRUE(journal_.waitFor("first"));
  dispatcher().pause("alice");
  first.open();
  // The pause of one millisecond is over when a later one of the same length is.
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().total_retries == 1; }));
  submit(failingUntil("b", "bob", 2));
  resultOf("b");
  EXPECT_EQ(runs, 1);
  EXPECT_EQ(dispatcher().status("a"), TaskStatus::Pending);
  dispatcher().resume("alice");
  EXPECT_TRUE(resultOf("a").ok());
}

}  // namespace
}  // namespace nimbus::dispatch
