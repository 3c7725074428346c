// The end: what was accepted has run, or is handed back.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>
#include <set>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

class ShutdownTest : public DispatchTest {
 protected:
  ShutdownTest() { config_.stop_grace = std::chrono::milliseconds(1); }
};

TEST_F(ShutdownTest, WhatWasAcceptedRuns) {
  config_.pool_size = 2;
  start();
  for (int i = 0; i < 200; ++i) submit(noting(std::to_string(i), std::to_string(i % 7)));
  const ShutdownReport report = dispatcher().shutdown();
  EXPECT_THAT(report.not_run, IsEmpty());
  EXPECT_THAT(report.not_run_tasks, IsEmpty());
  EXPECT_THAT(report.still_running, IsEmpty());
  EXPECT_EQ(journal_.size(), 200U);
  EXPECT_EQ(dispatcher().stats().total_completed, 200U);
}

TEST_F(ShutdownTest, NothingIsAcceptedAfterwards) {
  start();
  dispatcher().shutdown();
  Task task = noting("a1", "alice");
  EXPECT_EQ(dispatcher().submit(std::move(task)), SubmitStatus::Stopped);
  EXPECT_EQ(task.id, "a1");
  EXPECT_TRUE(task.payload.has_value());
  EXPECT_EQ(dispatcher().submit(std::move(task), kLong), SubmitStatus::Stopped);
  dispatcher().resize(3);
  EXPECT_THAT(journal_.entries(), IsEmpty());
}

TEST_F(ShutdownTest, ResultsCanStillBeAskedForAfterwards) {
  start();
  submit(noting("a1", "alice"));
  dispatcher().shutdown();
  EXPECT_TRUE(dispatcher().result("a1"));
  EXPECT_TRUE(dispatcher().wait("a1", kLong));
  EXPECT_FALSE(dispatcher().cancel("a1"));
  EXPECT_TRUE(dispatcher().drain("alice", kLong));
}

TEST_F(ShutdownTest, AtTheDeadlineTasksThatDidNotRunAreHandedBackInOrder) {
  config_.stop_grace = kLong;
  start();
  dispatcher().onResult(
      [this](const TaskResult& result) { journal_.add(result.task_id + " end"); });
  submit(obedient("a0", "alice"));
  ASSERT_TRUE(journal_.waitFor("a0"));
  for (int i = 1; i < 5; ++i) submit(noting("a" + std::to_string(i), "alice"));
  submit(noting("b1", "bob"));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  EXPECT_THAT(report.still_running, IsEmpty());
  EXPECT_THAT(report.not_run, UnorderedElementsAre("a1", "a2", "a3", "a4", "b1"));
  std::vector<std::string> of_alice;
  ASSERT_EQ(report.not_run_tasks.size(), report.not_run.size());
  for (std::size_t i = 0; i < report.not_run.size(); ++i) {
    const Task& task = report.not_run_tasks[i];
    EXPECT_EQ(task.id, report.not_run[i]);
    EXPECT_NE(std::any_cast<Work>(&task.payload), nullptr);
    if (task.session_id == "alice") of_alice.push_back(task.id);
  }
  EXPECT_THAT(of_alice, ElementsAre("a1", "a2", "a3", "a4"));
  // The one that ran was told to stop, and is reported; the others are not.
  EXPECT_EQ(errorOf("a0"), TaskError::Code::Cancelled);
  EXPECT_THAT(journal_.entries(), ElementsAre("a0", "a0 end"));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Cancelled);
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.total_not_run, 5U);
  EXPECT_EQ(stats.total_cancelled, 1U);
  EXPECT_EQ(stats.queued_tasks, 0U);
}

TEST_F(ShutdownTest, WhatIsHandedBackCanBeGivenToAnotherDispatcher) {
  start();
  occupy();
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  ShutdownReport report = dispatcher().shutdown(Duration::zero());
  Dispatcher other(config_, Dispatcher::Handler(runPayload));
  EXPECT_THAT(other.submitBatch(std::move(report.not_run_tasks)),
              ::testing::Each(SubmitStatus::Accepted));
  other.shutdown();
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "a2"));
}

TEST_F(ShutdownTest, AHandedBackTaskSaysWhenItWasMade) {
  start();
  occupy();
  const auto before = std::chrono::system_clock::now() - std::chrono::seconds(1);
  submit(noting("a1", "alice"));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  ASSERT_EQ(report.not_run_tasks.size(), 1U);
  EXPECT_GE(report.not_run_tasks[0].created_at, before);
}

TEST_F(ShutdownTest, ATaskBetweenTwoAttemptsIsHandedBackBeforeItsFollowers) {
  config_.retry = {
      .max_attempts = 2, .backoff = std::chrono::hours(1), .max_backoff = std::chrono::hours(1)};
  start();
  submit(failing("a1", "alice"));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().total_retries == 1; }));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  EXPECT_THAT(report.not_run, ElementsAre("a1", "a2"));
}

TEST_F(ShutdownTest, AHandlerThatDoesNotStopIsNamedAndLeftAlone) {
  start();
  const Latch release = occupy();
  submit(noting("o2", "occupier"));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  EXPECT_THAT(report.still_running, ElementsAre("occupied"));
  EXPECT_THAT(report.not_run, ElementsAre("o2"));
  EXPECT_EQ(dispatcher().status("occupied"), TaskStatus::Running);
  release.open();
  EXPECT_EQ(errorOf("occupied"), TaskError::Code::Cancelled);
}

TEST_F(ShutdownTest, ASecondShutdownGivesTheSameReport) {
  start();
  occupy();
  submit(noting("a1", "alice"));
  std::vector<ShutdownReport> reports(3);
  std::vector<std::thread> threads;
  for (ShutdownReport& report : reports) {
    threads.emplace_back([&] { report = dispatcher().shutdown(Duration::zero()); });
  }
  for (std::thread& thread : threads) thread.join();
  reports.push_back(dispatcher().shutdown());
  for (const ShutdownReport& report : reports) {
    EXPECT_THAT(report.not_run, ElementsAre("a1"));
    EXPECT_EQ(report.not_run_tasks.size(), 1U);
    EXPECT_THAT(report.still_running, ElementsAre("occupied"));
  }
}

TEST_F(ShutdownTest, ADispatcherThatNeverHadAnythingToDoEnds) {
  for (const std::size_t workers : {1U, 4U, 0U}) {
    config_.pool_size = workers;
    start();
  }
  EXPECT_THAT(dispatcher().shutdown().not_run, IsEmpty());
}

TEST_F(ShutdownTest, TheDestructorShutsDown) {
  {
    Dispatcher other(config_, Dispatcher::Handler(runPayload));
    for (int i = 0; i < 100; ++i) other.submit(noting("", "alice"));
  }
  EXPECT_EQ(journal_.size(), 100U);
}

// Everything goes when the last handler that would not stop has returned.
TEST_F(ShutdownTest, NothingIsLeftWhenAStuckHandlerHasReturned) {
  struct Guard {
    Latch destroyed;
    ~Guard() { destroyed.open(); }
  };
  const Latch destroyed = latch();
  const Latch release = latch();
  {
    auto guard = std::make_shared<Guard>(destroyed);
    Dispatcher other(config_, [guard](const Task& task, std::stop_token stop) {
      return runPayload(task, std::move(stop));
    });
    guard.reset();
    other.submit(blocking("a1", "alice", release));
    ASSERT_TRUE(journal_.waitFor("a1"));
    EXPECT_THAT(other.shutdown(Duration::zero()).still_running, ElementsAre("a1"));
  }
  EXPECT_FALSE(destroyed.isOpen());
  release.open();
  EXPECT_TRUE(destroyed.wait(kLong / 3));
}

TEST_F(ShutdownTest, NothingIsLeftWhenAHandlerReturnsThatAnotherThreadHadReplaced) {
  struct Guard {
    Latch destroyed;
    ~Guard() { destroyed.open(); }
  };
  config_.task_timeout = std::chrono::milliseconds(1);
  const Latch destroyed = latch();
  const Latch release = latch();
  {
    auto guard = std::make_shared<Guard>(destroyed);
    Dispatcher other(config_, [guard](const Task& task, std::stop_token stop) {
      return runPayload(task, std::move(stop));
    });
    guard.reset();
    other.submit(blocking("a1", "alice", release));
    ASSERT_TRUE(other.wait("a1", kLong));
    Task quick = noting("b1", "bob");
    quick.timeout = Duration::zero();
    other.submit(std::move(quick));
    ASSERT_TRUE(other.wait("b1", kLong));
    EXPECT_THAT(other.shutdown(Duration::zero()).still_running, ElementsAre("a1"));
  }
  release.open();
  EXPECT_TRUE(destroyed.wait(kLong / 3));
}

TEST_F(ShutdownTest, EveryTaskThatWasAcceptedWhileItBeganRanOrIsReported) {
  for (int round = 0; round < 30; ++round) {
    config_.pool_size = 2;
    config_.queue_size = 0;
    std::mutex mutex;
    std::set<std::string> ran;
    Dispatcher racing(config_, [&](const Task& task, const std::stop_token&) {
      const std::lock_guard lock(mutex);
      ran.insert(task.id);
      return TaskOutcome::ok();
    });
    std::vector<std::set<std::string>> accepted(3);
    std::vector<std::thread> threads;
    std::atomic<int> running = 0;
    for (std::size_t t = 0; t < accepted.size(); ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0;; ++i) {
          if (i == 20) ++running;
          Task task;
          task.id = std::to_string(t) + ":" + std::to_string(i);
          task.session_id = std::to_string(i % 50);
          const std::string id = task.id;
          if (i % 10 == 0) {
            std::vector<Task> batch;
            batch.push_back(std::move(task));
            if (racing.submitBatch(std::move(batch)).front() != SubmitStatus::Accepted) break;
          } else if (racing.submit(std::move(task)) != SubmitStatus::Accepted) {
            break;
          }
          accepted[t].insert(id);
        }
      });
    }
    ASSERT_TRUE(eventually([&] { return running == 3; }));
    const ShutdownReport report = racing.shutdown(round % 2 == 0 ? kLong : Duration::zero());
    for (std::thread& thread : threads) thread.join();
    // These had been given to the handler, which ends soon.
    for (const std::string& id : report.still_running) EXPECT_TRUE(racing.wait(id, kLong));
    std::set<std::string> expected;
    for (const auto& ids : accepted) expected.insert(ids.begin(), ids.end());
    std::set<std::string> got = ran;
    for (const std::string& id : report.not_run) {
      EXPECT_TRUE(got.insert(id).second) << id << " ran and was handed back";
    }
    EXPECT_EQ(got, expected);
  }
}

}  // namespace
}  // namespace nimbus::dispatch
