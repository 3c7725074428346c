// Several threads on one store. Each case checks from what the threads were answered that some
// order of their commits explains it all.

#include "suites.h"

#include <algorithm>
#include <atomic>
#include <barrier>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

namespace nimbus::store::conformance {
namespace {

constexpr std::size_t kThreads = 4;

// Runs `work` in several threads at once, each with a client of its own for the same partition.
class Threads {
 public:
  using Work = std::function<void(Client&, std::size_t thread)>;

  static void run(Store& store, const Partition& partition, const Work& work) {
    run({&store}, partition, work);
  }

  // Spread over several stores of the same data.
  static void run(const std::vector<Store*>& stores, const Partition& partition, const Work& work) {
    std::barrier together(static_cast<std::ptrdiff_t>(kThreads));
    std::vector<std::thread> threads;
    std::mutex mutex;
    std::vector<std::string> failures;
    for (std::size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Client client(*stores[i % stores.size()], partition);
        together.arrive_and_wait();
        try {
          work(client, i);
        } catch (const std::exception& failure) {
          const std::lock_guard lock(mutex);
          failures.emplace_back(failure.what());
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(failures, IsEmpty());
  }
};

// What the threads were answered, gathered.
template <typename T>
class Gathered {
 public:
  void add(T value) {
    const std::lock_guard lock(mutex_);
    values_.push_back(std::move(value));
  }
  std::vector<T> sorted() {
    std::sort(values_.begin(), values_.end());
    return values_;
  }

 private:
  std::mutex mutex_;
  std::vector<T> values_;
};

std::vector<std::uint64_t> oneTo(std::uint64_t last) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t i = 1; i <= last; ++i) numbers.push_back(i);
  return numbers;
}

// Commits without waiting, a window's worth at a time; results in the order of the calls.
std::vector<Result<Applied>> pipelined(Client& client, const std::vector<Batch>& batches) {
  constexpr std::size_t kWindow = 16;
  std::vector<Result<Applied>> results;
  std::vector<PendingCommit> pending;
  const auto drain = [&] {
    for (PendingCommit& commit : pending) results.push_back(client.wait(std::move(commit)));
    pending.clear();
  };
  for (const Batch& batch : batches) {
    pending.push_back(client.begin(batch));
    if (pending.size() == kWindow) drain();
  }
  drain();
  return results;
}

TEST_P(ConcurrencyTest, AddsAddUp) {
  Threads::run(store(), partition(), [](Client& client, std::size_t thread) {
    const std::vector<Batch> batches(100,
                                     batch(add("s", "n", static_cast<std::int64_t>(thread) + 1)));
    for (const auto& result : pipelined(client, batches)) ASSERT_TRUE(result);
  });
  EXPECT_EQ(value("s", "n"), std::to_string(100 * (1 + 2 + 3 + 4)));
  EXPECT_EQ(version("s", "n"), 100 * kThreads);
}

TEST_P(ConcurrencyTest, EachVersionIsGivenOutOnce) {
  Gathered<Version> versions;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    const std::vector<Batch> batches(100, batch(put("s", "k", std::to_string(thread))));
    Version last = 0;
    for (const auto& result : pipelined(client, batches)) {
      const Version version = result->get<RecordWritten>(0).version;
      EXPECT_GT(version, last) << "the commits of a thread keep their order";
      versions.add(last = version);
    }
  });
  EXPECT_EQ(versions.sorted(), oneTo(100 * kThreads));
}

TEST_P(ConcurrencyTest, NoVersionComesBackWhileOthersEraseAndSweep) {
  Gathered<Version> versions;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (int i = 0; i < 60; ++i) {
      const Timestamp now = client.store().now();
      if (thread == 0) {
        client.commit(i % 3 == 0 ? Operation(eraseSpace("s")) : Operation(erase("s", "k")));
        client.sweep();
      } else {
        const auto expiry = i % 2 == 0 ? std::optional(now) : std::nullopt;
        versions.add(client.written(expiring(put("s", "k"), expiry)).version);
      }
    }
  });
  const std::vector<Version> given = versions.sorted();
  EXPECT_EQ(std::set<Version>(given.begin(), given.end()).size(), given.size());
}

TEST_P(ConcurrencyTest, OneWinsPerVersion) {
  Gathered<Version> won;
  Threads::run(store(), partition(), [&](Client& client, std::size_t) {
    for (int i = 0; i < 50; ++i) {
      const Version seen = client.version("s", "k");
      const auto result = client.tryCommit(batch(expecting(put("s", "k"), seen)));
      if (result) {
        EXPECT_EQ(result->get<RecordWritten>(0).version, seen + 1);
        won.add(seen + 1);
      } else {
        EXPECT_EQ(result.error().code(), Code::VersionConflict);
        EXPECT_GT(result.error().field("current_version", 0), static_cast<std::int64_t>(seen));
      }
    }
  });
  const std::vector<Version> versions = won.sorted();
  EXPECT_EQ(versions, oneTo(versions.size()));
  EXPECT_EQ(version("s", "k"), versions.size());
}

TEST_P(ConcurrencyTest, SeqsHaveNoGapsAndGoToOneEntryEach) {
  Gathered<Seq> given;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    std::vector<Batch> batches;
    for (int i = 0; i < 100; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      batches.push_back(batch(append("l", id + "a"), append("l", id + "b")));
    }
    Seq last = 0;
    for (const auto& result : pipelined(client, batches)) {
      EXPECT_GT(result->get<Appended>(0).seq, last);
      EXPECT_EQ(result->get<Appended>(1).seq, result->get<Appended>(0).seq + 1);
      last = result->get<Appended>(1).seq;
      given.add(last - 1);
      given.add(last);
    }
  });
  EXPECT_EQ(given.sorted(), oneTo(200 * kThreads));
  EXPECT_EQ(seqs("l"), oneTo(200 * kThreads));
}

TEST_P(ConcurrencyTest, OneIdIsAppendedOnce) {
  std::mutex mutex;
  std::map<int, std::set<Seq>> seqs;
  std::map<int, int> first_times;
  Threads::run(store(), partition(), [&](Client& client, std::size_t) {
    for (int i = 0; i < 50; ++i) {
      const Appended appended = client.appended(append("l", std::to_string(i)));
      const std::lock_guard lock(mutex);
      seqs[i].insert(appended.seq);
      first_times[i] += appended.repeated ? 0 : 1;
    }
  });
  for (int i = 0; i < 50; ++i) {
    EXPECT_EQ(seqs[i].size(), 1U);
    EXPECT_EQ(first_times[i], 1);
  }
  EXPECT_EQ(logInfo("l").last_seq, 50U);
}

TEST_P(ConcurrencyTest, ALogThatMustNotMoveIsAppendedByOneAtATime) {
  Gathered<Seq> won;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (int i = 0; i < 50; ++i) {
      const Seq end = client.logInfo("l").last_seq;
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      const auto result = client.tryCommit(batch(require::LogEndsAt{"l", end}, append("l", id)));
      if (!result) continue;
      EXPECT_EQ(result->get<Appended>(0).seq, end + 1);
      won.add(end + 1);
    }
  });
  EXPECT_EQ(won.sorted(), oneTo(logInfo("l").last_seq));
}

TEST_P(ConcurrencyTest, ASpaceAtItsLimitIsNeverOver) {
  constexpr std::uint64_t kLimit = 25;
  std::atomic<int> applied = 0;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    std::vector<Batch> batches;
    for (int i = 0; i < 50; ++i) {
      const std::string key = std::to_string(thread) + "-" + std::to_string(i);
      batches.push_back(batch(require::SpaceWithin{"s", kLimit, 0}, put("s", key)));
    }
    for (const auto& result : pipelined(client, batches)) {
      applied += result ? 1 : 0;
      EXPECT_LE(client.usage("s").records, kLimit);
    }
  });
  EXPECT_EQ(applied, static_cast<int>(kLimit));
  EXPECT_EQ(usage("s").records, kLimit);
}

TEST_P(ConcurrencyTest, ALineAtItsLimitIsNeverOver) {
  constexpr std::uint64_t kLimit = 10;
  std::atomic<int> pushed = 0;
  std::atomic<int> completed = 0;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (int i = 0; i < 40; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      if (client.tryCommit(batch(require::QueueWithin{"q", kLimit}, push("q", id)))) ++pushed;
      EXPECT_LE(client.queueInfo("q").waiting, kLimit);
      if (i % 4 == 0 && client.tryCommit(batch(complete("q", id)))) ++completed;
    }
  });
  EXPECT_EQ(queueInfo("q").waiting, static_cast<std::uint64_t>(pushed - completed));
}

TEST_P(ConcurrencyTest, ALeaseHasOneHolderAtATime) {
  std::atomic<int> holders = 0;
  std::atomic<int> grants = 0;
  Gathered<std::uint64_t> epochs;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (std::uint64_t i = 0; i < 60; ++i) {
      const std::uint64_t nonce = thread * 1000 + i;
      const auto result = client.tryCommit(batch(acquire("owner", "me", 1h, nonce)));
      if (!result) {
        EXPECT_EQ(result.error().code(), Code::Conflict);
        continue;
      }
      EXPECT_EQ(++holders, 1);
      ++grants;
      const Token token = result->get<LeaseGranted>(0).token;
      EXPECT_EQ(token.nonce, nonce);
      epochs.add(token.epoch);
      client.commitWith(Fence{"owner", token}, add("s", "n", 1));
      --holders;
      client.commit(release("owner", token));
    }
  });
  EXPECT_EQ(epochs.sorted(), oneTo(static_cast<std::uint64_t>(grants)));
  EXPECT_EQ(value("s", "n"), std::to_string(grants));
}

TEST_P(ConcurrencyTest, AfterATakeOverTheOldHolderWritesNothing) {
  const Token first = granted(acquire("owner", "first")).token;
  std::mutex mutex;
  std::map<std::uint64_t, int> written_by;  // epoch -> commits that were applied
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (std::uint64_t i = 0; i < 30; ++i) {
      const Token token = client.lease("owner")->token;
      if (i % 5 == 0) {
        static_cast<void>(client.tryCommit(batch(takeOver(acquire("owner", "me"), token))));
      } else {
        // The value tells whose write it was; in the log they must stand in the order of epochs.
        const std::string id = std::to_string(thread) + "-" + std::to_string(i);
        const Batch fenced_write = batch(append("l", id, {}, std::to_string(token.epoch)));
        const auto result = client.tryCommit(fenced_write, Fence{"owner", token});
        if (result) {
          const std::lock_guard lock(mutex);
          ++written_by[token.epoch];
        } else {
          EXPECT_EQ(result.error().code(), Code::Fenced);
        }
      }
    }
  });
  std::uint64_t epoch = first.epoch;
  const auto log = ask<EntryPage>(query::ScanLog{.log = "l", .limit = kMaxPage});
  for (const Entry& entry : log.items) {
    EXPECT_GE(std::stoull(entry.value), epoch);
    epoch = std::stoull(entry.value);
    --written_by[epoch];
  }
  for (const auto& [by, left] : written_by) EXPECT_EQ(left, 0) << by;
}

TEST_P(ConcurrencyTest, ALimiterGivesOutNoMoreThanItsBurst) {
  std::atomic<int> given = 0;
  Threads::run(store(), partition(), [&](Client& client, std::size_t) {
    const std::vector<Batch> batches(50, batch(take("l", 1h, 30)));
    for (const auto& result : pipelined(client, batches)) given += result ? 1 : 0;
  });
  EXPECT_EQ(given, 30);
}

TEST_P(ConcurrencyTest, AnItemIsCompletedOnce) {
  for (int i = 0; i < 50; ++i) commit(push("q", std::to_string(i)));
  std::atomic<int> completed = 0;
  Threads::run(store(), partition(), [&](Client& client, std::size_t) {
    for (int i = 0; i < 50; ++i) {
      completed += client.tryCommit(batch(complete("q", std::to_string(i)))) ? 1 : 0;
    }
  });
  EXPECT_EQ(completed, 50);
  EXPECT_EQ(queueInfo("q"), QueueInfo{});
}

TEST_P(ConcurrencyTest, AReadSeesEachCommitWholeOrNotAtAll) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Client client(store(), partition());
    for (int i = 1; i <= 150; ++i) {
      const std::string number = std::to_string(i);
      client.commit(put("s", "a", number), put("t", "b", number), append("l", number),
                    push("q", number), add("s", "n", 1));
    }
    stop = true;
  });
  Client reader(store(), partition());
  Version last = 0;
  while (!stop) {
    const auto answers =
        reader.read({query::GetRecord{"s", "a"}, query::GetLogInfo{"l"}, query::GetQueueInfo{"q"},
                     query::GetRecord{"t", "b"}, query::GetRecord{"s", "n"},
                     query::ScanLog{.log = "l", .order = Order::Descending, .limit = 1}});
    const auto& a = std::get<std::optional<Record>>(answers[0]);
    const Version version = a ? a->version : 0;
    EXPECT_GE(version, last);
    last = version;
    EXPECT_EQ(std::get<LogInfo>(answers[1]).last_seq, version);
    EXPECT_EQ(std::get<QueueInfo>(answers[2]).waiting, version);
    if (!a) continue;
    EXPECT_EQ(std::get<std::optional<Record>>(answers[3])->value, a->value);
    EXPECT_EQ(std::get<std::optional<Record>>(answers[4])->value, a->value);
    EXPECT_EQ(std::get<EntryPage>(answers[5]).items.at(0).id, a->value);
  }
  writer.join();
}

TEST_P(ConcurrencyTest, ARefusedBatchIsNeverSeen) {
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    Client client(store(), partition());
    for (int i = 0; i < 150; ++i) {
      const auto result = client.tryCommit(
          batch(put("s", "a"), append("l", "e"), push("q", "i"), expecting(put("s", "b"), 9)));
      EXPECT_FALSE(result);
    }
    stop = true;
  });
  Client reader(store(), partition());
  while (!stop) {
    EXPECT_FALSE(reader.exists("s", "a"));
    EXPECT_EQ(reader.logInfo("l").last_seq, 0U);
    EXPECT_EQ(reader.queueInfo("q").waiting, 0U);
  }
  writer.join();
}

TEST_P(ConcurrencyTest, EveryThreadReadsWhatItMadeDurable) {
  Threads::run(store(), partition(), [](Client& client, std::size_t thread) {
    const std::string key = std::to_string(thread);
    for (int i = 0; i < 50; ++i) {
      client.commit(put("s", key, std::to_string(i)));
      ASSERT_EQ(client.value("s", key), std::to_string(i));
    }
  });
}

TEST_P(ConcurrencyTest, PartitionsAreWrittenSideBySide) {
  Threads::run(store(), partition(), [](Client& client, std::size_t thread) {
    Client own(client.store(), Partition("session", {"f", std::to_string(thread)}));
    const std::vector<Batch> batches(100,
                                     batch(add("s", "n", 1), list("d", std::to_string(thread))));
    for (const auto& result : pipelined(own, batches)) ASSERT_TRUE(result);
    EXPECT_EQ(own.value("s", "n"), "100");
  });
  EXPECT_EQ(listed("d").size(), kThreads);
}

// Another thread may write the very version that a link of the chain expects, so a chain can go on
// behind a link that was refused; but no version is ever met twice.
TEST_P(ConcurrencyTest, EachExpectedVersionOfAPipelineIsMetOnce) {
  Gathered<Version> met;
  Threads::run(store(), partition(), [&](Client& client, std::size_t thread) {
    for (int round = 0; round < 10; ++round) {
      const Version start = client.version("s", "k");
      std::vector<Batch> chain;
      for (Version i = 0; i < 8; ++i) {
        chain.push_back(batch(expecting(put("s", "k", std::to_string(thread)), start + i)));
      }
      const auto results = pipelined(client, chain);
      for (Version i = 0; i < 8; ++i) {
        if (!results[i]) continue;
        EXPECT_EQ(results[i]->get<RecordWritten>(0).version, start + i + 1);
        met.add(start + i + 1);
      }
    }
  });
  EXPECT_EQ(met.sorted(), oneTo(version("s", "k")));
}

// ---- two instances on the same data

TEST_P(ConcurrencyTest, TwoInstancesWriteAsOne) {
  const std::unique_ptr<Store> second = openSecond();
  if (!second) return;
  Gathered<Version> versions;
  Gathered<Seq> given;
  const std::vector<Store*> stores = {&store(), second.get()};
  Threads::run(stores, partition(), [&](Client& client, std::size_t thread) {
    std::vector<Batch> batches;
    for (int i = 0; i < 50; ++i) {
      const std::string id = std::to_string(thread) + "-" + std::to_string(i);
      batches.push_back(batch(put("s", "k"), append("l", id), add("s", "n", 1)));
    }
    for (const auto& result : pipelined(client, batches)) {
      versions.add(result->get<RecordWritten>(0).version);
      given.add(result->get<Appended>(1).seq);
    }
  });
  EXPECT_EQ(versions.sorted(), oneTo(50 * kThreads));
  EXPECT_EQ(given.sorted(), oneTo(50 * kThreads));
  EXPECT_EQ(value("s", "n"), std::to_string(50 * kThreads));
}

TEST_P(ConcurrencyTest, TwoInstancesShareLeasesAndLimits) {
  const std::unique_ptr<Store> second = openSecond();
  if (!second) return;
  std::atomic<int> granted = 0;
  std::atomic<int> put_applied = 0;
  const std::vector<Store*> stores = {&store(), second.get()};
  Threads::run(stores, partition(), [&](Client& client, std::size_t thread) {
    granted += client.tryCommit(batch(acquire("owner", std::to_string(thread)))) ? 1 : 0;
    for (int i = 0; i < 20; ++i) {
      const std::string key = std::to_string(thread) + "-" + std::to_string(i);
      const Batch limited = batch(require::SpaceWithin{"s", 15, 0}, put("s", key));
      put_applied += client.tryCommit(limited) ? 1 : 0;
    }
  });
  EXPECT_EQ(granted, 1);
  EXPECT_EQ(put_applied, 15);
}

}  // namespace
}  // namespace nimbus::store::conformance
