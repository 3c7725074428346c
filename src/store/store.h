#pragma once
// The Store: where everything that must outlive the process is kept.
//
// All durable data of Nimbus is made of five primitives:
//   record   key -> bytes, with a version that never comes back, and an expiry
//   log      a gap-free sequence of entries, found by id, seq or index term
//   lease    a holder, a fencing token, an expiry by the store's clock
//   queue    first in, first out, with retries, schedules and parked items
//   limiter  GCRA in one atomic step
// State, sessions, events, flows, cron, keys and limits are layers on top of them, written once.
// Each backend implements this port and nothing more, and all pass one suite
// (tests/conformance/). The memory backend is the specification in executable form.
//
// Two steps make a commit: it is *applied* when every condition held and its results are known, and
// *durable* when it survives whatever the durability class names. A caller may act on the results
// in between, as long as nothing leaves the server: an applied commit can still be lost with the
// process, or with the transaction that was to make it durable.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "store/batch.h"
#include "store/commit.h"
#include "store/partition.h"
#include "store/query.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store {

// What a durable commit survives.
enum class Durability : std::uint8_t {
  Disk,        // power loss
  Replicated,  // loss of one machine
  Memory,      // nothing but the process that asked
};

std::string_view durabilityName(Durability durability);

struct Description {
  std::string backend;  // "sqlite"
  Durability durability = Durability::Memory;
};

// What a sweep() did.
struct Swept {
  std::uint64_t removed = 0;
  bool more = false;  // the budget ended before all had been looked at since there was no more
};

// Ends a watch() when destroyed. After that the callback is not called, nor running, unless it was
// the callback itself that destroyed it.
class Watch {
 public:
  virtual ~Watch() = default;
};

// Commits of one partition that build on each other.
struct Chained {
  // Of the commit before, by the same thread: if that has failed this one is refused (Conflict).
  std::shared_ptr<const CommitListener> after = nullptr;
  // Hears the same as who waits for durable().
  std::shared_ptr<CommitListener> listener = nullptr;
};

// What a backend is given to commit.
struct CommitOrder {
  Partition partition;
  std::optional<Fence> fence;
  Batch batch;
  Chained chained;
};

// Safe from any thread.
class Store {
 public:
  virtual ~Store() = default;

  virtual Description describe() const = 0;

  // The clock that leases and expiry go by; the same for every process that shares the store, up to
  // its answer time.
  virtual Timestamp now() const = 0;

  // Changes a partition; see Batch. The order of calls is the order of commits, per partition and
  // calling thread; nobody has to wait for one to begin the next. With a fence, the batch is
  // refused (Fenced) unless that lease has that token.
  //
  // Errors of durable(): NotApplied, or Unknown if it may have been applied. A commit can fail
  // after it was applied (the disk filled up), and later ones are not refused for it, unless they
  // are chained.
  PendingCommit commit(Partition partition, std::optional<Fence> fence, Batch batch) {
    return begin({std::move(partition), std::move(fence), std::move(batch), {}});
  }
  // The same for one writer who begins the next before the last is durable.
  PendingCommit commit(Partition partition, Batch batch, Chained chained) {
    return begin({std::move(partition), std::nullopt, std::move(batch), std::move(chained)});
  }

  // Answers from one snapshot, which holds every commit that was durable when read() was called.
  // InvalidArgument if a limit is 0 or above kMaxPage.
  virtual Task<Result<std::vector<Answer>>> read(Partition partition,
                                                 std::vector<Query> queries) = 0;

  // Entries with keys after `after` that begin with `prefix`, in the order of the keys' bytes.
  virtual Task<Result<DirectoryPage>> readDirectory(std::string directory, std::string after,
                                                    std::string prefix, std::size_t limit) = 0;

  // Calls `changed` after commits to the partition, by whichever process: at least once after the
  // last of any run of changes, soon, and sometimes for nothing. It runs on a thread of the
  // store and must not block or call back into the store.
  virtual std::unique_ptr<Watch> watch(Partition partition, std::function<void()> changed) = 0;

  // Removes expired records and limiters that are full again, oldest first, for about `budget`;
  // goes on the next time where it had to stop. A backend may let what has expired lie for some
  // minutes. The server calls it now and then; reads never depend on it.
  virtual Task<Result<Swept>> sweep(Millis budget) = 0;

  // Cheap proof that the store can be written: for health checks. Fails, with what commits fail
  // with, while they do; InsufficientStorage until there is room for more than a little.
  virtual Task<Result<>> check() = 0;

 private:
  virtual PendingCommit begin(CommitOrder order) = 0;
};

// ---- one question, one answer

Task<Result<std::optional<Record>>> getRecord(Store& store, Partition partition, std::string space,
                                              std::string key);

// Asks one query; T is what the query answers.
template <typename T>
Task<Result<T>> ask(Store& store, Partition partition, Query query) {
  std::vector<Query> queries;
  queries.push_back(std::move(query));
  NIMBUS_CO_TRY(auto answers, co_await store.read(std::move(partition), std::move(queries)));
  co_return std::get<T>(std::move(answers.front()));
}

}  // namespace nimbus::store
