// A session stays with its worker while it is active, through every resize.

#include "dispatch/testing/fixture.h"

#include <map>
#include <set>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class AffinityTest : public DispatchTest {
 protected:
  AffinityTest() {
    config_.session_idle_time = std::chrono::hours(1);
    config_.placement = Placement::RoundRobin;
  }

  std::string workerOf(const std::string& session) {
    const auto found = dispatcher().session(session);
    return found ? found->worker_id : "none";
  }

  bool isForgotten(const std::string& session) {
    return eventually([&] { return !dispatcher().session(session).has_value(); });
  }
};

TEST_F(AffinityTest, AnActiveSessionRunsOnOneThread) {
  config_.pool_size = 4;
  config_.queue_size = 0;
  start();
  std::mutex mutex;
  std::map<std::string, std::set<std::thread::id>> threads;
  for (int i = 0; i < 2000; ++i) {
    submit(makeTask("", "s" + std::to_string(i % 40), [&](const Task& task, const auto&) {
      const std::lock_guard lock(mutex);
      threads[task.session_id].insert(std::this_thread::get_id());
      return TaskOutcome::ok();
    }));
  }
  for (int s = 0; s < 40; ++s) ASSERT_TRUE(dispatcher().drain("s" + std::to_string(s), kLong));
  std::set<std::thread::id> all;
  for (const auto& [session, used] : threads) {
    EXPECT_EQ(used.size(), 1U) << session;
    all.insert(used.begin(), used.end());
  }
  EXPECT_EQ(all.size(), 4U);
}

TEST_F(AffinityTest, ASessionWithoutWorkStaysWithinTheIdleTime) {
  config_.pool_size = 2;
  start();
  for (int i = 0; i < 5; ++i) {
    submit(noting("a" + std::to_string(i), "alice"));
    resultOf("a" + std::to_string(i));
    EXPECT_EQ(workerOf("alice"), "worker-0");
    submit(noting("o" + std::to_string(i), "other" + std::to_string(i)));
  }
}

TEST_F(AffinityTest, AfterTheIdleTimeASessionMayGoElsewhere) {
  config_.pool_size = 2;
  config_.session_idle_time = Duration::zero();
  start();
  // It may be forgotten at any time, even between being begun and its first task: twice at least.
  std::set<std::string> workers;
  EXPECT_TRUE(eventually([&] {
    const Latch hold = latch();
    submit(blocking("", "alice", hold));
    workers.insert(workerOf("alice"));
    hold.open();
    return isForgotten("alice") && workers.size() == 2;
  }));
  EXPECT_THAT(workers, ElementsAre("worker-0", "worker-1"));
}

TEST_F(AffinityTest, ResizingUpLeavesASessionThatHasWorkWhereItIs) {
  start();
  const Latch release = occupy();
  submit(noting("o2", "occupier"));
  dispatcher().resize(3);
  EXPECT_EQ(workerOf("occupier"), "worker-0");

  const Latch hold = latch();
  for (const char* session : {"s0", "s1", "s2"}) submit(blocking(session, session, hold));
  EXPECT_THAT((std::vector{workerOf("s0"), workerOf("s1"), workerOf("s2")}),
              ElementsAre("worker-0", "worker-1", "worker-2"));
  submit(noting("o3", "occupier"));
  hold.open();
  release.open();
  resultOf("o3");
  EXPECT_EQ(workerOf("occupier"), "worker-0");
}

TEST_F(AffinityTest, ResizingDownLetsALeavingWorkerFinishItsSessionsInOrder) {
  config_.pool_size = 4;
  start();
  const Latch hold = latch();
  for (int s = 0; s < 4; ++s) {
    const std::string session = "s" + std::to_string(s);
    submit(blocking(session + ":0", session, hold));
    for (int i = 1; i < 10; ++i) submit(noting(session + ":" + std::to_string(i), session));
  }
  ASSERT_TRUE(journal_.waitForSize(4));
  dispatcher().resize(1);

  std::size_t leaving = 0;
  for (const WorkerStats& worker : dispatcher().stats().workers) leaving += worker.leaving;
  EXPECT_EQ(leaving, 3U);
  // They have work: what is submitted now stands in the same line.
  for (int s = 0; s < 4; ++s) {
    const std::string session = "s" + std::to_string(s);
    submit(noting(session + ":10", session));
    EXPECT_EQ(workerOf(session), "worker-" + std::to_string(s));
  }
  hold.open();
  for (int s = 0; s < 4; ++s) resultOf("s" + std::to_string(s) + ":10");

  std::map<char, std::vector<std::string>> by_session;
  for (const std::string& entry : journal_.entries()) by_session[entry[1]].push_back(entry);
  for (const auto& [s, entries] : by_session) {
    std::vector<std::string> expected;
    for (int i = 0; i <= 10; ++i) {
      expected.push_back(std::string("s") + s + ":" + std::to_string(i));
    }
    EXPECT_EQ(entries, expected);
  }
  // Without work they go, long before the idle time.
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().workers.size() == 1; }));
  submit(noting("again", "s3"));
  resultOf("again");
  EXPECT_EQ(workerOf("s3"), "worker-0");
  EXPECT_EQ(dispatcher().stats().total_completed, 45U);
}

TEST_F(AffinityTest, AnIdleSessionOfALeavingWorkerMovesWithItsNextTask) {
  config_.pool_size = 2;
  start();
  submit(noting("a1", "alice"));
  submit(noting("b1", "bob"));
  ASSERT_TRUE(dispatcher().drain("bob", kLong));
  ASSERT_EQ(workerOf("bob"), "worker-1");
  dispatcher().resize(1);
  submit(noting("b2", "bob"));
  EXPECT_TRUE(resultOf("b2").ok());
  EXPECT_NE(workerOf("bob"), "worker-1");
}

TEST_F(AffinityTest, AWorkerThatIsTakenBackBeforeItHasLeftGoesOn) {
  config_.pool_size = 2;
  start();
  const Latch hold = latch();
  submit(blocking("a1", "alice", hold));
  submit(blocking("b1", "bob", hold));
  ASSERT_TRUE(journal_.waitForSize(2));
  dispatcher().resize(1);
  dispatcher().resize(2);
  submit(noting("b2", "bob"));
  EXPECT_EQ(workerOf("bob"), "worker-1");
  hold.open();
  resultOf("b2");
  EXPECT_EQ(dispatcher().stats().workers.size(), 2U);
  EXPECT_FALSE(dispatcher().stats().workers[1].leaving);
}

TEST_F(AffinityTest, AWorkerThatHasLeftCanComeBack) {
  config_.pool_size = 2;
  start();
  submit(noting("a1", "alice"));
  submit(noting("b1", "bob"));
  resultOf("a1");
  resultOf("b1");
  dispatcher().resize(1);
  ASSERT_TRUE(eventually([&] { return dispatcher().stats().workers.size() == 1; }));
  dispatcher().resize(2);
  const Latch hold = latch();
  submit(blocking("c1", "carol", hold));
  submit(blocking("d1", "dave", hold));
  EXPECT_TRUE(journal_.waitFor("c1"));
  EXPECT_TRUE(journal_.waitFor("d1"));
}

TEST_F(AffinityTest, ResizingToZeroMeansOneWorkerPerHardwareThread) {
  start();
  dispatcher().resize(0);
  EXPECT_EQ(dispatcher().stats().workers.size(), std::max(1U, std::thread::hardware_concurrency()));
}

TEST_F(AffinityTest, NothingIsLostOrReorderedWhileTheNumberOfWorkersChanges) {
  config_.queue_size = 0;
  config_.session_idle_time = Duration::zero();
  start();
  constexpr int kSessions = 20;
  constexpr int kTasks = 200;
  std::vector<std::vector<int>> started(kSessions);
  std::atomic<bool> done = false;
  std::thread resizer([&] {
    for (std::size_t i = 0; !done; ++i) {
      dispatcher().resize(1 + i % 4);
      std::this_thread::yield();
    }
  });
  for (int i = 0; i < kTasks; ++i) {
    for (int s = 0; s < kSessions; ++s) {
      submit(makeTask("", std::to_string(s), [&, s, i](const Task&, const std::stop_token&) {
        started[static_cast<std::size_t>(s)].push_back(i);
        return TaskOutcome::ok();
      }));
    }
  }
  for (int s = 0; s < kSessions; ++s) EXPECT_TRUE(dispatcher().drain(std::to_string(s), kLong));
  done = true;
  resizer.join();
  std::vector<int> expected(kTasks);
  for (int i = 0; i < kTasks; ++i) expected[static_cast<std::size_t>(i)] = i;
  for (const auto& line : started) EXPECT_EQ(line, expected);
}

}  // namespace
}  // namespace nimbus::dispatch
