// Tasks that run only after others.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class DependencyTest : public DispatchTest {
 protected:
  DependencyTest() {
    config_.pool_size = 2;
    config_.placement = Placement::RoundRobin;
  }

  Task after(Task task, std::vector<std::string> others) {
    task.depends_on = std::move(others);
    return task;
  }
};

TEST_F(DependencyTest, ATaskRunsAfterWhatItDependsOnAcrossWorkers) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(after(noting("b1", "bob"), {"a1"}));
  submit(noting("b2", "bob"));
  submit(noting("c1", "carol"));  // behind alice
  submit(noting("d1", "dave"));   // beside bob
  resultOf("d1");
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_NE(dispatcher().session("alice")->worker_id, dispatcher().session("bob")->worker_id);
  EXPECT_EQ(dispatcher().status("b1"), TaskStatus::Pending);
  // Its session waits too.
  EXPECT_EQ(dispatcher().status("b2"), TaskStatus::Pending);
  release.open();
  EXPECT_TRUE(resultOf("b2").ok());
  resultOf("c1");
  std::vector<std::string> of_bob = journal_.entries();
  std::erase_if(of_bob, [](const std::string& entry) { return entry[0] != 'b'; });
  EXPECT_THAT(of_bob, ElementsAre("b1", "b2"));
}

TEST_F(DependencyTest, AllMustHaveSucceeded) {
  start();
  const Latch first = latch();
  const Latch second = latch();
  submit(blocking("a1", "alice", first));
  submit(blocking("b1", "bob", second));
  submit(after(noting("c1", "carol"), {"a1", "b1", "a1"}));
  first.open();
  resultOf("a1");
  EXPECT_EQ(dispatcher().status("c1"), TaskStatus::Pending);
  second.open();
  EXPECT_TRUE(resultOf("c1").ok());
}

TEST_F(DependencyTest, ATaskFailsWithoutRunningIfWhatItDependsOnFails) {
  start();
  const Latch release = occupy();
  submit(failing("a1", "occupier"));
  submit(after(noting("b1", "bob"), {"a1"}));
  submit(noting("b2", "bob"));
  submit(after(noting("c1", "carol"), {"b1"}));
  release.open();
  const TaskResult result = resultOf("b1");
  EXPECT_EQ(result.error->code, TaskError::Code::DependencyFailed);
  EXPECT_EQ(result.attempts, 0U);
  EXPECT_EQ(errorOf("c1"), TaskError::Code::DependencyFailed);
  EXPECT_TRUE(resultOf("b2").ok());
  EXPECT_FALSE(journal_.has("b1"));
  EXPECT_FALSE(journal_.has("c1"));
  EXPECT_EQ(dispatcher().stats().total_failed, 3U);
  EXPECT_EQ(dispatcher().stats().queued_tasks, 0U);
}

TEST_F(DependencyTest, ATaskFailsIfWhatItDependsOnIsCancelled) {
  start();
  const Latch release = occupy();
  submit(noting("o2", "occupier"));
  submit(after(noting("b1", "bob"), {"o2"}));
  EXPECT_TRUE(dispatcher().cancel("o2"));
  EXPECT_EQ(errorOf("b1"), TaskError::Code::DependencyFailed);
  release.open();
  EXPECT_FALSE(journal_.has("b1"));
}

TEST_F(DependencyTest, ATaskFailsIfWhatItDependsOnRunsOutOfTime) {
  config_.stop_grace = std::chrono::milliseconds(1);
  start();
  const Latch release = latch();
  Task stuck = blocking("a1", "alice", release);
  stuck.timeout = std::chrono::milliseconds(1);
  submit(std::move(stuck));
  submit(after(noting("b1", "bob"), {"a1"}));
  EXPECT_EQ(errorOf("b1"), TaskError::Code::DependencyFailed);
}

TEST_F(DependencyTest, WhatHasEndedAlreadyCountsAsItEnded) {
  start();
  submit(noting("good", "alice"));
  submit(failing("bad", "alice"));
  resultOf("bad");
  submit(after(noting("b1", "bob"), {"good"}));
  submit(after(noting("b2", "bob"), {"good", "bad"}));
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_EQ(errorOf("b2"), TaskError::Code::DependencyFailed);
}

TEST_F(DependencyTest, WhatIsNotKnownOrItselfIsRefused) {
  start();
  Task task = after(noting("a1", "alice"), {"nobody"});
  EXPECT_EQ(dispatcher().submit(std::move(task)), SubmitStatus::UnknownDependency);
  EXPECT_EQ(task.depends_on, std::vector<std::string>{"nobody"});
  EXPECT_TRUE(task.payload.has_value());
  EXPECT_EQ(submit(after(noting("a1", "alice"), {"a1"})), SubmitStatus::DependencyCycle);
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Unknown);
  EXPECT_FALSE(dispatcher().session("alice"));
}

TEST_F(DependencyTest, ATaskMayDependOnAnEarlierOneOfItsSession) {
  start();
  submit(noting("a1", "alice"));
  submit(after(noting("a2", "alice"), {"a1"}));
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(DependencyTest, AWaitingTaskCanBeCancelledAndTheNextOneRuns) {
  start();
  const Latch release = occupy();
  submit(after(noting("b1", "bob"), {"occupied"}));
  submit(noting("b2", "bob"));
  EXPECT_TRUE(dispatcher().cancel("b1"));
  EXPECT_TRUE(resultOf("b2").ok());
  release.open();
  EXPECT_TRUE(resultOf("occupied").ok());
  EXPECT_FALSE(journal_.has("b1"));
}

TEST_F(DependencyTest, OneTaskMayReleaseMany) {
  config_.queue_size = 0;
  start();
  const Latch release = occupy();
  for (int i = 0; i < 200; ++i) {
    submit(after(noting("d" + std::to_string(i), "s" + std::to_string(i % 20)), {"occupied"}));
  }
  EXPECT_EQ(journal_.size(), 1U);
  release.open();
  for (int i = 0; i < 200; ++i) EXPECT_TRUE(resultOf("d" + std::to_string(i)).ok());
}

TEST_F(DependencyTest, ALongChainOverManySessionsRunsInItsOrder) {
  config_.queue_size = 0;
  start();
  const Latch release = occupy();
  std::vector<std::string> expected = {"occupied"};
  for (int i = 0; i < 300; ++i) {
    const std::string id = "d" + std::to_string(i);
    submit(after(noting(id, "s" + std::to_string(i % 13)), {expected.back()}));
    expected.push_back(id);
  }
  release.open();
  resultOf(expected.back());
  EXPECT_EQ(journal_.entries(), expected);
}

TEST_F(DependencyTest, AShutdownThatHandsBackATaskFailsOrHandsBackWhoWaitsForIt) {
  start();
  occupy();
  submit(noting("o2", "occupier"));
  submit(after(noting("b1", "bob"), {"o2"}));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  EXPECT_FALSE(journal_.has("b1"));
  EXPECT_FALSE(journal_.has("o2"));
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.total_failed + stats.total_not_run, 2U);
}

TEST_F(DependencyTest, RetriesOfADependencyAreWaitedFor) {
  config_.retry = {.max_attempts = 2, .backoff = std::chrono::milliseconds(1)};
  start();
  auto runs = std::make_shared<std::atomic<int>>(0);
  const Latch release = occupy();
  submit(makeTask("a1", "occupier", [runs](const Task&, const std::stop_token&) {
    return ++*runs == 1 ? TaskOutcome::fail("") : TaskOutcome::ok();
  }));
  submit(after(noting("b1", "bob"), {"a1"}));
  release.open();
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_EQ(*runs, 2);
}

// A task is known from the moment it is submitted; what it is known for must hold from then on.
TEST_F(DependencyTest, ATaskThatIsStillOnItsWayCannotCloseACycle) {
  config_.log_level = LogLevel::Debug;
  bool first = true;
  config_.log = [&](const LogEvent& event) {
    if (event.what != "task accepted" || event.task_id != "b" || !std::exchange(first, false)) {
      return;
    }
    // b is not in its line yet. Whoever is accepted now stands before it.
    if (submit(after(noting("a", "alice"), {"b"})) != SubmitStatus::Accepted) return;
    submit(after(noting("c", "bob"), {"a"}));
  };
  start();
  ASSERT_EQ(submit(noting("b", "bob")), SubmitStatus::Accepted);
  EXPECT_TRUE(dispatcher().drain("bob", std::chrono::seconds(2)));
  EXPECT_TRUE(dispatcher().drain("alice", std::chrono::seconds(2)));
  dispatcher().shutdown(Duration::zero());
}

TEST_F(DependencyTest, NoLockIsHeldWhenATaskWithDependenciesIsLogged) {
  config_.log_level = LogLevel::Debug;
  const Latch logged = latch();
  std::thread late;
  config_.log = [&, logged](const LogEvent& event) {
    if (event.what != "task accepted" || event.task_id != "b1") return;
    // From another thread, so that a lock that is held shows as a wait and not as a fault.
    late = std::thread([this, logged] {
      submit(after(noting("b2", "bob"), {"a1"}));
      logged.open();
    });
    EXPECT_TRUE(logged.wait(kLong / 10)) << "a lock is held";
  };
  start();
  submit(noting("a1", "alice"));
  resultOf("a1");
  submit(after(noting("b1", "bob"), {"a1"}));
  late.join();
  EXPECT_TRUE(resultOf("b2").ok());
}

// Results are dropped all the while; one that was seen to succeed must not count as failed.
TEST_F(DependencyTest, ADependencyThatSucceededNeverCountsAsFailed) {
  config_.max_results = 1;
  config_.pool_size = 2;
  config_.queue_size = 0;
  start();
  std::atomic<int> failed = 0;
  dispatcher().onError([&](const TaskResult&) { ++failed; });
  for (int i = 0; i < 3000; ++i) {
    const std::string number = std::to_string(i);
    submit(noting("a" + number, "a" + std::to_string(i % 7)));
    Task task = noting("b" + number, "b" + std::to_string(i % 5));
    task.depends_on = {"a" + number};
    const SubmitStatus status = submit(std::move(task));
    EXPECT_TRUE(status == SubmitStatus::Accepted || status == SubmitStatus::UnknownDependency);
  }
  dispatcher().shutdown(kLong);
  EXPECT_EQ(failed, 0);
}

}  // namespace
}  // namespace nimbus::dispatch
