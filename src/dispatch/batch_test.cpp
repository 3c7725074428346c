// Batches: all or nothing per session.

#include "dispatch/testing/fixture.h"

#include <atomic>

namespace nimbus::dispatch {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr auto kAccepted = SubmitStatus::Accepted;
constexpr auto kFull = SubmitStatus::QueueFull;
constexpr auto kCycle = SubmitStatus::DependencyCycle;
constexpr auto kUnknown = SubmitStatus::UnknownDependency;
constexpr auto kDuplicate = SubmitStatus::DuplicateId;

class BatchTest : public DispatchTest {
 protected:
  Task after(Task task, std::vector<std::string> others) {
    task.depends_on = std::move(others);
    return task;
  }

  std::vector<SubmitStatus> submitBatch(std::vector<Task>& tasks) {
    return dispatcher().submitBatch(std::move(tasks));
  }
};

TEST_F(BatchTest, NothingIsABatchToo) {
  start();
  EXPECT_THAT(dispatcher().submitBatch(std::vector<Task>()), IsEmpty());
}

TEST_F(BatchTest, TasksRunInTheOrderGiven) {
  start();
  const Latch release = occupy();
  std::vector<Task> tasks = {noting("a1", "alice"), noting("b1", "bob"), noting("a2", "alice"),
                             noting("a3", "alice")};
  EXPECT_THAT(submitBatch(tasks), Each(kAccepted));
  submit(noting("a4", "alice"));
  release.open();
  resultOf("b1");
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "a2", "a3", "a4", "b1"));
}

TEST_F(BatchTest, ACopyIsTakenOfABatchThatMayNotBeChanged) {
  start();
  const std::vector<Task> tasks = {noting("a1", "alice"), noting("a2", "alice")};
  EXPECT_THAT(dispatcher().submitBatch(tasks), Each(kAccepted));
  resultOf("a2");
  EXPECT_EQ(tasks[0].id, "a1");
}

TEST_F(BatchTest, ASessionThatHasNoRoomForAllItsTasksGetsNone) {
  config_.session_queue_size = 2;
  start();
  const Latch release = occupy();
  std::vector<Task> tasks = {noting("a1", "alice"), noting("b1", "bob"), noting("a2", "alice"),
                             noting("a3", "alice"), noting("b2", "bob")};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kFull, kAccepted, kFull, kFull, kAccepted));
  // Refused tasks stay in their places.
  EXPECT_EQ(tasks[0].id, "a1");
  EXPECT_EQ(tasks[2].id, "a2");
  EXPECT_EQ(tasks[3].id, "a3");
  EXPECT_TRUE(tasks[3].payload.has_value());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Unknown);
  release.open();
  ASSERT_TRUE(dispatcher().drain("bob", kLong));
  EXPECT_FALSE(dispatcher().session("alice").value_or(SessionStats()).unfinished_tasks);
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "b1", "b2"));
}

TEST_F(BatchTest, AWorkerThatHasNoRoomForAllTasksOfASessionGetsNoneOfThem) {
  config_.queue_size = 3;
  start();
  const Latch release = occupy();
  std::vector<Task> tasks = {noting("a1", "alice"), noting("a2", "alice"), noting("b1", "bob"),
                             noting("b2", "bob"), noting("c1", "carol")};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kAccepted, kAccepted, kFull, kFull, kAccepted));
  EXPECT_EQ(dispatcher().stats().queued_tasks, 3U);
  EXPECT_EQ(submit(noting("d1", "dave")), kFull);
  release.open();
  resultOf("c1");
  EXPECT_EQ(dispatcher().session("bob")->unfinished_tasks, 0U);  // none was accepted
}

TEST_F(BatchTest, NoOthersTaskComesBetweenThoseOfABatch) {
  config_.queue_size = 0;
  start();
  const Latch release = occupy();
  std::vector<std::pair<int, int>> started;  // thread, number
  const auto task = [&](int thread, int number) {
    return makeTask("", "alice", [&, thread, number](const Task&, const std::stop_token&) {
      started.emplace_back(thread, number);
      return TaskOutcome::ok();
    });
  };
  constexpr int kThreads = 3;
  constexpr int kBatches = 50;
  constexpr int kTasks = 10;
  // One comes with single tasks as long as the others come with batches.
  std::atomic<bool> done = false;
  std::size_t singles = 0;
  std::thread intruder([&] {
    for (; !done; ++singles) submit(task(0, 0));
  });
  std::vector<std::thread> threads;
  for (int t = 1; t <= kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int b = 0; b < kBatches; ++b) {
        std::vector<Task> tasks;
        for (int i = 0; i < kTasks; ++i) tasks.push_back(task(t, i));
        EXPECT_THAT(submitBatch(tasks), Each(kAccepted));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  done = true;
  intruder.join();
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  ASSERT_EQ(started.size(), singles + kThreads * kBatches * kTasks);
  for (std::size_t i = 0; i < started.size();) {
    const auto [thread, number] = started[i];
    ASSERT_EQ(number, 0);
    if (thread == 0) {
      ++i;
      continue;
    }
    for (int n = 0; n < kTasks; ++n, ++i) ASSERT_EQ(started[i], std::pair(thread, n));
  }
}

TEST_F(BatchTest, ADuplicateRefusesItsSession) {
  start();
  const Latch release = occupy();
  submit(noting("known", "x"));
  std::vector<Task> tasks = {noting("a1", "alice"), noting("known", "alice"), noting("b1", "bob"),
                             noting("a2", "alice")};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kDuplicate, kDuplicate, kAccepted, kDuplicate));
  EXPECT_EQ(tasks[0].id, "a1");
  EXPECT_EQ(tasks[1].id, "known");
  EXPECT_EQ(tasks[3].id, "a2");
  for (const std::size_t i : {0U, 1U, 3U}) EXPECT_TRUE(tasks[i].payload.has_value());
  // The ids that were refused are free.
  EXPECT_EQ(submit(noting("a1", "alice")), kAccepted);
  release.open();
  resultOf("a1");
  EXPECT_EQ(dispatcher().stats().queued_tasks, 0U);
}

TEST_F(BatchTest, AnIdTwiceInABatchRefusesTheSessionOfTheSecond) {
  start();
  std::vector<Task> tasks = {noting("x", "alice"), noting("x", "bob"), noting("b2", "bob")};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kAccepted, kDuplicate, kDuplicate));
  std::vector<Task> same = {noting("y", "alice"), noting("y", "alice")};
  EXPECT_THAT(submitBatch(same), Each(kDuplicate));
  EXPECT_EQ(dispatcher().status("y"), TaskStatus::Unknown);
}

TEST_F(BatchTest, ATaskMayDependOnALaterOneOfAnotherSession) {
  start();
  std::vector<Task> tasks = {after(noting("a1", "alice"), {"b2"}), noting("b1", "bob"),
                             noting("b2", "bob")};
  EXPECT_THAT(submitBatch(tasks), Each(kAccepted));
  EXPECT_TRUE(resultOf("a1").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("b1", "b2", "a1"));
}

TEST_F(BatchTest, TasksThatWaitForEachOtherAreRefused) {
  start();
  std::vector<Task> tasks = {after(noting("a", "alice"), {"b"}), after(noting("b", "bob"), {"a"}),
                             noting("c", "carol")};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kCycle, kCycle, kAccepted));
  EXPECT_EQ(tasks[0].id, "a");
  EXPECT_EQ(dispatcher().status("a"), TaskStatus::Unknown);
}

TEST_F(BatchTest, ATaskThatWaitsForOneBehindItInItsSessionIsRefused) {
  start();
  std::vector<Task> tasks = {after(noting("a1", "alice"), {"a2"}), noting("a2", "alice")};
  EXPECT_THAT(submitBatch(tasks), Each(kCycle));
  std::vector<Task> itself = {after(noting("s", "alice"), {"s"})};
  EXPECT_THAT(submitBatch(itself), Each(kCycle));
}

TEST_F(BatchTest, ACycleThroughTheOrderOfTwoSessionsIsFound) {
  start();
  std::vector<Task> tasks = {
      after(noting("a1", "alice"), {"b2"}),
      noting("a2", "alice"),
      after(noting("b1", "bob"), {"a2"}),
      noting("b2", "bob"),
      noting("c1", "carol"),
  };
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kCycle, kCycle, kCycle, kCycle, kAccepted));
}

TEST_F(BatchTest, WhoDependsOnACycleIsRefusedForThat) {
  start();
  std::vector<Task> tasks = {after(noting("a", "alice"), {"b"}), after(noting("b", "bob"), {"a"}),
                             after(noting("c", "carol"), {"a"})};
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kCycle, kCycle, kUnknown));
}

TEST_F(BatchTest, AnUnknownDependencyTakesWithItWhoDependsOnIt) {
  start();
  std::vector<Task> tasks = {
      after(noting("c1", "carol"), {"b1"}),
      after(noting("a1", "alice"), {"nobody"}),
      after(noting("b1", "bob"), {"a2"}),
      noting("a2", "alice"),
      noting("d1", "dave"),
  };
  EXPECT_THAT(submitBatch(tasks), ElementsAre(kUnknown, kUnknown, kUnknown, kUnknown, kAccepted));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_TRUE(tasks[i].payload.has_value());
  EXPECT_EQ(tasks[0].depends_on, std::vector<std::string>{"b1"});
  resultOf("d1");
  for (const char* id : {"a1", "a2", "b1", "c1"}) {
    EXPECT_EQ(dispatcher().status(id), TaskStatus::Unknown);
  }
  EXPECT_EQ(dispatcher().stats().queued_tasks, 0U);
  EXPECT_EQ(dispatcher().session("bob")->unfinished_tasks, 0U);
}

TEST_F(BatchTest, ATaskOfABatchMayDependOnOneThatWasThereBefore) {
  start();
  const Latch release = occupy();
  std::vector<Task> tasks = {after(noting("a1", "alice"), {"occupied"})};
  EXPECT_THAT(submitBatch(tasks), Each(kAccepted));
  release.open();
  EXPECT_TRUE(resultOf("a1").ok());
}

TEST_F(BatchTest, AfterAShutdownEverythingIsRefused) {
  start();
  dispatcher().shutdown();
  std::vector<Task> tasks = {noting("a1", "alice"), noting("b1", "bob")};
  EXPECT_THAT(submitBatch(tasks), Each(SubmitStatus::Stopped));
  EXPECT_EQ(tasks[1].id, "b1");
}

TEST_F(BatchTest, TooManySessionsAreRefusedEach) {
  config_.max_sessions = 2;
  start();
  std::vector<Task> tasks = {noting("a1", "a"), noting("b1", "b"), noting("c1", "c"),
                             noting("a2", "a")};
  EXPECT_THAT(submitBatch(tasks),
              ElementsAre(kAccepted, kAccepted, SubmitStatus::TooManySessions, kAccepted));
}

TEST_F(BatchTest, AcceptedTasksAreLogged) {
  Journal log;
  config_.log_level = LogLevel::Debug;
  config_.log = [log](const LogEvent& event) {
    if (event.what == "task accepted") log.add(std::string(event.task_id));
  };
  start();
  std::vector<Task> tasks = {noting("a1", "alice"), after(noting("b1", "bob"), {"nobody"}),
                             noting("a2", "alice")};
  submitBatch(tasks);
  EXPECT_THAT(log.entries(), ElementsAre("a1", "a2"));
}

// Whoever looks while a batch is being refused sees a task that waits, or none: never a result.
TEST_F(BatchTest, ARefusedTaskNeverHasAResult) {
  start();
  std::atomic<bool> done = false;
  std::atomic<int> seen = 0;
  std::thread looker([&] {
    while (!done) {
      if (dispatcher().result("a1")) ++seen;
      if (dispatcher().wait("a2", Duration::zero())) ++seen;
      const TaskStatus status = dispatcher().status("a3");
      if (status != TaskStatus::Pending && status != TaskStatus::Unknown) ++seen;
      dispatcher().cancel("a2");
    }
  });
  for (int i = 0; i < 3000; ++i) {
    std::vector<Task> tasks = {noting("a1", "alice"), noting("a2", "alice"), noting("a3", "alice"),
                               after(noting("a4", "alice"), {"nobody"})};
    ASSERT_THAT(submitBatch(tasks), Each(kUnknown));
  }
  done = true;
  looker.join();
  EXPECT_EQ(seen, 0);
}

// A drain that meets a task on its way to be refused must not wait for its end.
TEST_F(BatchTest, ADrainDoesNotWaitForATaskThatWasRefused) {
  start();
  submit(noting("known", "alice"));
  resultOf("known");
  std::atomic<bool> done = false;
  std::thread refused([&] {
    while (!done) submit(noting("known", "alice"));
  });
  for (int i = 0; i < 2000 && !HasFailure(); ++i) {
    const auto before = std::chrono::steady_clock::now();
    ASSERT_TRUE(dispatcher().drain("alice", std::chrono::seconds(5)));
    ASSERT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(4)) << i;
  }
  done = true;
  refused.join();
}

}  // namespace
}  // namespace nimbus::dispatch
