// What waits is bounded, and what a submit does when there is no room.

#include "dispatch/room.h"
#include "dispatch/testing/fixture.h"

#include <atomic>
#include <numeric>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class BackpressureTest : public DispatchTest {};

TEST_F(BackpressureTest, AFullQueueRefusesExactlyTheTaskThatIsTooMuch) {
  config_.queue_size = 5;
  start();
  const Latch release = occupy();
  for (int i = 0; i < 5; ++i) {
    ASSERT_EQ(submit(noting("a" + std::to_string(i), "s" + std::to_string(i % 2))),
              SubmitStatus::Accepted);
  }
  EXPECT_EQ(submit(noting("over", "s0")), SubmitStatus::QueueFull);
  EXPECT_EQ(submit(noting("over", "new")), SubmitStatus::QueueFull);
  const DispatcherStats stats = dispatcher().stats();
  EXPECT_EQ(stats.queued_tasks, 5U);
  EXPECT_EQ(stats.workers[0].queue_length, 5U);
  EXPECT_EQ(stats.workers[0].queue_capacity, 5U);
  EXPECT_EQ(stats.total_submitted, 6U);
  EXPECT_EQ(dispatcher().status("over"), TaskStatus::Unknown);

  release.open();
  resultOf("a4");
  EXPECT_EQ(submit(noting("later", "s0")), SubmitStatus::Accepted);
  EXPECT_TRUE(resultOf("later").ok());
  EXPECT_FALSE(journal_.has("over"));
}

TEST_F(BackpressureTest, EveryPlaceComesBack) {
  config_.queue_size = 3;
  start();
  for (int round = 0; round < 50; ++round) {
    const Latch release = latch();
    const std::string name = "r" + std::to_string(round);
    submit(blocking(name, "occupier", release));
    ASSERT_TRUE(journal_.waitFor(name));
    for (int i = 0; i < 3; ++i) ASSERT_EQ(submit(noting("", "alice")), SubmitStatus::Accepted);
    ASSERT_EQ(submit(noting("", "alice")), SubmitStatus::QueueFull);
    release.open();
    ASSERT_TRUE(dispatcher().drain("alice", kLong));
    ASSERT_TRUE(dispatcher().drain("occupier", kLong));
  }
}

TEST_F(BackpressureTest, ARefusedTaskIsLeftAsItWas) {
  config_.queue_size = 1;
  start();
  occupy();
  submit(noting("a1", "alice"));
  Task task = noting("a2", "alice");
  task.priority = 2;
  task.timeout = std::chrono::seconds(5);
  EXPECT_EQ(dispatcher().submit(std::move(task)), SubmitStatus::QueueFull);
  EXPECT_EQ(task.id, "a2");
  EXPECT_EQ(task.session_id, "alice");
  EXPECT_EQ(task.priority, 2);
  EXPECT_EQ(task.timeout, std::chrono::seconds(5));
  EXPECT_NE(std::any_cast<Work>(&task.payload), nullptr);
}

TEST_F(BackpressureTest, CancellingMakesRoom) {
  config_.queue_size = 1;
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  ASSERT_EQ(submit(noting("a2", "alice")), SubmitStatus::QueueFull);
  ASSERT_TRUE(dispatcher().cancel("a1"));
  EXPECT_EQ(submit(noting("a2", "alice")), SubmitStatus::Accepted);
  release.open();
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(BackpressureTest, AQueueWithoutBoundTakesAll) {
  config_.queue_size = 0;
  start();
  occupy();
  for (int i = 0; i < 5000; ++i) ASSERT_EQ(submit(noting("", "a")), SubmitStatus::Accepted);
  EXPECT_EQ(dispatcher().stats().queued_tasks, 5000U);
  dispatcher().shutdown(Duration::zero());
}

TEST_F(BackpressureTest, ASessionMayHaveABoundOfItsOwnThatCountsTheRunningTask) {
  config_.session_queue_size = 2;
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_EQ(submit(noting("a2", "alice")), SubmitStatus::Accepted);
  EXPECT_EQ(submit(noting("a3", "alice")), SubmitStatus::QueueFull);
  EXPECT_EQ(submit(noting("b1", "bob")), SubmitStatus::Accepted);
  release.open();
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(submit(noting("a3", "alice")), SubmitStatus::Accepted);
}

TEST_F(BackpressureTest, ABlockedSubmitGetsInWhenThereIsRoom) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  std::thread waiting([&] { EXPECT_EQ(submit(noting("a2", "alice")), SubmitStatus::Accepted); });
  release.open();
  waiting.join();
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "a2"));
}

TEST_F(BackpressureTest, ABlockedSubmitToAFullSessionGetsInWhenOneOfItsTasksHasEnded) {
  config_.session_queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  std::thread waiting([&] { EXPECT_EQ(submit(noting("a2", "alice")), SubmitStatus::Accepted); });
  release.open();
  waiting.join();
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(BackpressureTest, ManyBlockedSubmittersAllGetInAndKeepTheirOrder) {
  config_.queue_size = 2;
  config_.on_full = OnFull::Block;
  config_.pool_size = 2;
  start();
  constexpr int kThreads = 4;
  constexpr int kTasks = 300;
  std::vector<std::vector<int>> started(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        const auto status =
            submit(makeTask("", std::to_string(t), [&, t, i](const Task&, const std::stop_token&) {
              started[static_cast<std::size_t>(t)].push_back(i);
              return TaskOutcome::ok();
            }));
        EXPECT_EQ(status, SubmitStatus::Accepted);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<int> expected(kTasks);
  std::iota(expected.begin(), expected.end(), 0);
  for (int t = 0; t < kThreads; ++t) {
    ASSERT_TRUE(dispatcher().drain(std::to_string(t), kLong));
    EXPECT_EQ(started[static_cast<std::size_t>(t)], expected);
  }
}

TEST_F(BackpressureTest, ABlockedSubmitGivesUpAtItsDeadline) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  config_.block_timeout = std::chrono::milliseconds(2);
  start();
  occupy();
  submit(noting("a1", "alice"));
  Task task = noting("a2", "alice");
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(dispatcher().submit(std::move(task)), SubmitStatus::QueueFull);
  EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(2));
  EXPECT_EQ(task.id, "a2");
  EXPECT_TRUE(task.payload.has_value());
}

TEST_F(BackpressureTest, PatienceOfTheCallCountsInEveryMode) {
  config_.queue_size = 1;
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  EXPECT_EQ(dispatcher().submit(noting("a2", "alice"), std::chrono::milliseconds(1)),
            SubmitStatus::QueueFull);
  EXPECT_EQ(dispatcher().submit(noting("a2", "alice"), Duration::zero()), SubmitStatus::QueueFull);
  std::thread waiting([&] {
    EXPECT_EQ(dispatcher().submit(noting("a2", "alice"), kLong), SubmitStatus::Accepted);
  });
  release.open();
  waiting.join();
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(BackpressureTest, AShutdownEndsTheWaiting) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  occupy();
  submit(noting("a1", "alice"));
  std::atomic<int> stopped = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Task task = noting("w" + std::to_string(i), "alice");
      if (dispatcher().submit(std::move(task)) == SubmitStatus::Stopped &&
          task.payload.has_value()) {
        ++stopped;
      }
    });
  }
  dispatcher().shutdown(Duration::zero());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(stopped, 3);
}

TEST_F(BackpressureTest, ASubmitInAHandlerNeverBlocks) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  SubmitStatus first = SubmitStatus::Stopped;
  SubmitStatus second = SubmitStatus::Stopped;
  SubmitStatus patient = SubmitStatus::Stopped;
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token&) {
    first = submit(noting("b1", "bob"));
    second = submit(noting("b2", "bob"));
    patient = dispatcher().submit(noting("b3", "bob"), kLong);
    return TaskOutcome::ok();
  }));
  EXPECT_TRUE(resultOf("a").ok());
  EXPECT_EQ(first, SubmitStatus::Accepted);
  EXPECT_EQ(second, SubmitStatus::QueueFull);
  EXPECT_EQ(patient, SubmitStatus::QueueFull);
}

TEST_F(BackpressureTest, ASubmitInACallbackNeverBlocks) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  std::vector<SubmitStatus> statuses;
  dispatcher().onResult([&](const TaskResult& result) {
    if (result.task_id != "a") return;
    statuses.push_back(submit(noting("b1", "bob")));
    statuses.push_back(submit(noting("b2", "bob")));
  });
  submit(noting("a", "alice"));
  ASSERT_TRUE(journal_.waitFor("b1"));
  EXPECT_THAT(statuses, ElementsAre(SubmitStatus::Accepted, SubmitStatus::QueueFull));
}

// Both run on the supervisor's thread, without which no timeout would ever be noticed.
TEST_F(BackpressureTest, ASubmitInAStopCallbackOrALogHookNeverBlocks) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  config_.task_timeout = std::chrono::milliseconds(1);
  config_.stop_grace = std::chrono::milliseconds(1);
  config_.log_level = LogLevel::Warning;
  std::atomic<int> logged = 0;
  config_.log = [&](const LogEvent& event) {
    if (event.what != "task stuck" || logged > 0) return;
    // Of three, one takes the place of the first, if that has started meanwhile.
    int refused = 0;
    for (int i = 3; i < 6; ++i) {
      const SubmitStatus status = submit(noting("b" + std::to_string(i), "bob"));
      refused += status == SubmitStatus::QueueFull ? 1 : 0;
    }
    EXPECT_GE(refused, 2);
    ++logged;
  };
  start();
  const Latch hold = latch();
  const Latch release = latch();
  submit(makeTask("a", "alice", [&](const Task&, const std::stop_token& stop) {
    const std::stop_callback submits(stop, [&] {
      EXPECT_EQ(submit(blocking("b1", "bob", hold)), SubmitStatus::Accepted);
      EXPECT_EQ(submit(noting("b2", "bob")), SubmitStatus::QueueFull);
    });
    release.wait();
    return TaskOutcome::ok();
  }));
  ASSERT_TRUE(eventually([&] { return logged > 0; }));
  release.open();
  hold.open();
  dispatcher().shutdown();  // before what the handlers look at is gone
}

TEST_F(BackpressureTest, TheQueueSizeCanBeChangedWhileAllGoesOn) {
  config_.queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  std::thread waiting([&] { EXPECT_EQ(submit(noting("a2", "alice")), SubmitStatus::Accepted); });
  dispatcher().setQueueSize(3);
  waiting.join();
  EXPECT_EQ(submit(noting("a3", "alice")), SubmitStatus::Accepted);
  EXPECT_EQ(dispatcher().stats().workers[0].queue_capacity, 3U);

  // What waits is not turned away.
  dispatcher().setQueueSize(1);
  EXPECT_EQ(dispatcher().submit(noting("a4", "alice"), Duration::zero()), SubmitStatus::QueueFull);
  release.open();
  EXPECT_TRUE(resultOf("a3").ok());
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "a1", "a2", "a3"));
}

TEST_F(BackpressureTest, AWorkerThatComesLaterHasTheQueueSizeThatWasSetLast) {
  config_.queue_size = 1;
  config_.placement = Placement::RoundRobin;
  start();
  dispatcher().setQueueSize(7);
  dispatcher().resize(2);
  for (const WorkerStats& worker : dispatcher().stats().workers) {
    EXPECT_EQ(worker.queue_capacity, 7U) << worker.worker_id;
  }
}

TEST_F(BackpressureTest, ASessionThatIsFullDoesNotHoldUpTheSubmittersOfOthers) {
  config_.session_queue_size = 1;
  config_.on_full = OnFull::Block;
  start();
  dispatcher().pause("alice");
  submit(noting("a1", "alice"));
  std::thread waiting([&] { submit(noting("a2", "alice")); });
  // Whether or not that one waits already, bob has room.
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(dispatcher().submit(noting("", "bob"), kLong / 10), SubmitStatus::Accepted);
    EXPECT_TRUE(dispatcher().drain("bob", kLong));
    if (HasFailure()) break;
  }
  dispatcher().resume("alice");
  waiting.join();
}

// A batch that does not fit asks for many places, and gets none: nobody else may notice.
TEST_F(BackpressureTest, ARefusedBatchCostsNobodyElseAPlace) {
  config_.queue_size = 100;
  start();
  occupy();
  submit(noting("", "alice"));
  std::atomic<bool> done = false;
  std::thread greedy([&] {
    while (!done) {
      std::vector<Task> tasks(100);
      for (Task& task : tasks) task.session_id = "greedy";
      EXPECT_EQ(dispatcher().submitBatch(std::move(tasks)).front(), SubmitStatus::QueueFull);
    }
  });
  for (int i = 0; i < 2000; ++i) {
    const std::string id = "b" + std::to_string(i);
    ASSERT_EQ(submit(noting(id, "bob")), SubmitStatus::Accepted) << i;
    ASSERT_TRUE(dispatcher().cancel(id));
  }
  done = true;
  greedy.join();
}

// ---- the room in which submitters wait

TEST(RoomTest, WhoComesFirstIsServedFirst) {
  Room room;
  std::mutex mutex;
  std::vector<int> served;
  int places = 0;
  const auto attempt = [&](int who) {
    const std::lock_guard lock(mutex);
    if (places == 0) return false;
    --places;
    served.push_back(who);
    return true;
  };
  // Each is known to be in the line, as its first, before the next one comes, or behind others: a
  // line of n has n waiting.
  std::vector<std::thread> threads;
  std::atomic<int> first_tries = 0;
  threads.emplace_back([&] {
    room.waitInLine(Room::kForTheWorker, never(), [&] {
      ++first_tries;
      return attempt(0);
    });
  });
  ASSERT_TRUE(eventually([&] { return first_tries > 0; }));
  for (int i = 1; i < 4; ++i) {
    threads.emplace_back(
        [&, i] { room.waitInLine(Room::kForTheWorker, never(), [&] { return attempt(i); }); });
    ASSERT_TRUE(eventually([&] { return room.waiting() == static_cast<std::size_t>(i) + 1; }));
  }
  for (int i = 0; i < 4; ++i) {
    {
      const std::lock_guard lock(mutex);
      ++places;
    }
    room.made();
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(served, ElementsAre(0, 1, 2, 3));
  EXPECT_FALSE(room.isAwaited());
}

TEST(RoomTest, WhoGivesUpLetsTheNextOneTry) {
  Room room;
  std::atomic<bool> open = false;
  std::thread patient;
  std::thread hasty([&] {
    room.waitInLine(Room::kForTheWorker, Clock::now() + std::chrono::milliseconds(1),
                    [&] { return false; });
    open = true;
  });
  ASSERT_TRUE(eventually([&] { return room.isAwaited() || open; }));
  patient = std::thread(
      [&] { room.waitInLine(Room::kForTheWorker, never(), [&] { return open.load(); }); });
  hasty.join();
  room.made();
  patient.join();
  EXPECT_FALSE(room.isAwaited());
}

}  // namespace
}  // namespace nimbus::dispatch
