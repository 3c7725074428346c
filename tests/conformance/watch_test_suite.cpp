// Watching a partition. What is called back comes from another thread, so these cases wait for it;
// nothing can be said of what must not come, for a watch may ring for nothing.

#include "suites.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace nimbus::store::conformance {
namespace {

class Bell {
 public:
  void ring() {
    const std::lock_guard lock(mutex_);
    ++rings_;
    rung_.notify_all();
  }
  int rings() const {
    const std::lock_guard lock(mutex_);
    return rings_;
  }
  bool waitForMoreThan(int rings) {
    std::unique_lock lock(mutex_);
    return rung_.wait_for(lock, 20s, [&] { return rings_ > rings; });
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable rung_;
  int rings_ = 0;
};

TEST_P(WatchTest, RingsAfterACommit) {
  Bell bell;
  const auto watch = store().watch(partition(), [&] { bell.ring(); });
  commit(put("s", "k"));
  EXPECT_TRUE(bell.waitForMoreThan(0));
}

TEST_P(WatchTest, RingsForEveryKindOfChange) {
  Bell bell;
  const auto watch = store().watch(partition(), [&] { bell.ring(); });
  const std::vector<Operation> changes = {
      put("s", "k"),   add("s", "n", 1), touch("s", "k", now() + 1h),
      erase("s", "k"), eraseSpace("s"),  append("l", "e"),
      amend("l", "e"), remove("l", "e"), push("q", "i"),
      defer("q", "i"), park("q", "i"),   acquire("owner", "me"),
      dropLog("l"),    take("t", 1s, 5), op::DropPartition{}};
  for (const Operation& change : changes) {
    const int before = bell.rings();
    commit(change);
    EXPECT_TRUE(bell.waitForMoreThan(before)) << change.index();
  }
}

TEST_P(WatchTest, RingsAfterTheLastOfARunOfChanges) {
  Bell bell;
  Client reader = clientOf(partition());
  const auto watch = store().watch(partition(), [&] { bell.ring(); });
  for (int run = 1; run <= 5; ++run) {
    std::vector<PendingCommit> pending;
    for (int i = 0; i < 20; ++i) pending.push_back(begin(batch(add("s", "n", 1))));
    for (PendingCommit& commit : pending) ASSERT_TRUE(wait(std::move(commit)));
    // A watcher that reads whenever the bell has rung ends up with the last change.
    int seen = 0;
    while (reader.value("s", "n") != std::to_string(20 * run)) {
      ASSERT_TRUE(bell.waitForMoreThan(seen));
      seen = bell.rings();
    }
    EXPECT_TRUE(bell.waitForMoreThan(0));
  }
}

TEST_P(WatchTest, EveryWatchOfAPartitionRings) {
  Bell first;
  Bell second;
  const auto watch = store().watch(partition(), [&] { first.ring(); });
  const auto another = store().watch(partition(), [&] { second.ring(); });
  commit(put("s", "k"));
  EXPECT_TRUE(first.waitForMoreThan(0));
  EXPECT_TRUE(second.waitForMoreThan(0));
}

TEST_P(WatchTest, RingsForCommitsOfOtherThreads) {
  Bell bell;
  const auto watch = store().watch(partition(), [&] { bell.ring(); });
  std::thread other([&] { clientOf(partition()).commit(put("s", "k")); });
  EXPECT_TRUE(bell.waitForMoreThan(0));
  other.join();
}

TEST_P(WatchTest, RingsForCommitsOfAnotherInstance) {
  const std::unique_ptr<Store> second = openSecond();
  if (!second) return;
  Bell bell;
  const auto watch = second->watch(partition(), [&] { bell.ring(); });
  for (int i = 0; i < 3; ++i) {
    const int before = bell.rings();
    commit(put("s", "k"));
    EXPECT_TRUE(bell.waitForMoreThan(before));
  }
}

TEST_P(WatchTest, AnEndedWatchIsSilent) {
  Bell bell;
  Bell other;
  auto watch = store().watch(partition(), [&] { bell.ring(); });
  const auto kept = store().watch(partition(), [&] { other.ring(); });
  commit(put("s", "k"));
  EXPECT_TRUE(bell.waitForMoreThan(0));
  watch.reset();
  const int rings = bell.rings();
  const int heard = other.rings();
  commit(put("s", "k"));
  EXPECT_TRUE(other.waitForMoreThan(heard));
  EXPECT_EQ(bell.rings(), rings);
}

TEST_P(WatchTest, EndingWaitsForACallThatIsRunning) {
  std::atomic<bool> running = false;
  std::atomic<bool> ending = false;
  std::atomic<bool> finished = false;
  auto watch = store().watch(partition(), [&] {
    if (running.exchange(true)) return;
    while (!ending) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    finished = true;
  });
  std::thread writer([&] { clientOf(partition()).commit(put("s", "k")); });
  while (!running) std::this_thread::yield();
  ending = true;
  watch.reset();
  EXPECT_TRUE(finished);
  writer.join();
}

TEST_P(WatchTest, WatchesComeAndGoWhileOthersWrite) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Client client = clientOf(partition());
    while (!stop) client.commit(put("s", "k"));
  });
  for (int i = 0; i < 200; ++i) {
    auto alive = std::make_unique<std::atomic<int>>(0);
    auto watch = store().watch(partition(), [counter = alive.get()] { ++*counter; });
    if (i % 10 == 0) clientOf(partition()).commit(put("s", "other"));
    watch.reset();
    alive.reset();  // a call from now on touches freed memory, and the sanitizers tell
  }
  stop = true;
  writer.join();
}

TEST_P(WatchTest, AWatchMayEndItselfFromItsCallback) {
  Bell bell;
  std::mutex mutex;
  std::unique_ptr<Watch> watch;
  std::unique_lock lock(mutex);
  watch = store().watch(partition(), [&] {
    const std::lock_guard guard(mutex);
    if (!watch) return;
    watch.reset();
    bell.ring();
  });
  lock.unlock();
  commit(put("s", "k"));
  EXPECT_TRUE(bell.waitForMoreThan(0));
  commit(put("s", "k"));
  EXPECT_EQ(bell.rings(), 1);
}

TEST_P(WatchTest, ManyPartitionsAreWatchedAtOnce) {
  constexpr int kPartitions = 50;
  std::vector<Bell> bells(kPartitions);
  std::vector<std::unique_ptr<Watch>> watches;
  const auto partitionOf = [](int i) { return Partition("session", {"f", std::to_string(i)}); };
  for (int i = 0; i < kPartitions; ++i) {
    Bell& bell = bells[static_cast<std::size_t>(i)];
    watches.push_back(store().watch(partitionOf(i), [&bell] { bell.ring(); }));
  }
  for (int i = 0; i < kPartitions; ++i) clientOf(partitionOf(i)).commit(put("s", "k"));
  for (Bell& bell : bells) EXPECT_TRUE(bell.waitForMoreThan(0));
}

}  // namespace
}  // namespace nimbus::store::conformance
