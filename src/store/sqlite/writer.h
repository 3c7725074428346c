#pragma once
// The one thread of a process that writes to the database.
//
// Group commit: whatever piled up while the last transaction was being made durable becomes the
// next one, so that many commits share one fsync and none waits for a timer. Results are handed
// back as soon as a batch is applied; durability is told when the transaction has been committed.
//
// Nobody waits here without end. When another process does not give up its turn (it is frozen, or a
// foreign tool holds a lock), everything that waits is refused, and what comes later is refused
// soon, until there is a turn again.

#include "base/clock.h"
#include "base/one_shot.h"
#include "base/result.h"
#include "base/wake_together.h"
#include "store/sqlite/batch_writer.h"
#include "store/sqlite/database.h"
#include "store/sqlite/fail_stop.h"
#include "store/sqlite/turnstile.h"
#include "store/watchers.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace nimbus::store::sqlite {

// Something to be done in a transaction of the writer.
class WriterTask {
 public:
  virtual ~WriterTask() = default;

  // An error of the database (isDatabaseError) ends the transaction for all in it; finish() then
  // tells. What is merely refused is the task's own affair. Called on the writer's thread.
  virtual Result<> apply(BatchWriter& writer, Timestamp now) = 0;

  // After the transaction was committed or given up; without apply() if there was none. Called on
  // the writer's thread, or inside submit().
  virtual void finish(const Result<>& durable) = 0;

  // The partition that a commit changed; nothing if none did.
  virtual const Partition* changed() const { return nullptr; }
};

// Asks whether the database can be written.
struct WriterCheck {
  OneShot<Result<>> done;
};

// What the writer has done since it was started.
struct WriterStatistics {
  std::uint64_t commits = 0;       // made durable; neither those refused nor upkeep
  std::uint64_t transactions = 0;  // that made them durable
  std::uint64_t failed_transactions = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t wal_frames = 0;  // not yet copied into the database
};

class Writer final : public Sleeper {
 public:
  struct Options {
    // At most this many tasks share a transaction: bounds how long the first of them waits, and
    // how long other processes wait at the turnstile.
    std::size_t max_tasks_per_transaction = 4096;
    // At most this many tasks wait for a transaction; more are refused.
    std::size_t max_waiting_tasks = 65536;
    // How long a turn at writing is waited for before all that wait are refused. Callers are
    // promised an answer within 5 s.
    Millis turn_timeout = std::chrono::seconds(3);
    // The same while turns stay away. Short: whoever comes then need not wait long to be refused.
    Millis turn_retry_timeout = Millis(200);
    // The WAL is copied back into the database when it has grown to this many pages (of 4 KiB).
    std::uint64_t checkpoint_after_frames = 8192;
    // If readers kept it from starting anew and it grew to this many, the writer waits for them:
    // so long, and so often. Long enough for our own readers; one that stays is not waited for.
    std::uint64_t truncate_after_frames = 65536;
    Millis truncate_patience = Millis(50);
    Millis truncate_every = std::chrono::seconds(5);
    // If nothing was written for so long, a check() writes something: only that proves that it can
    // be done.
    Millis heartbeat_every = std::chrono::seconds(10);
    // How soon a change by another process is noticed, while anybody watches.
    Millis foreign_change_poll = Millis(20);
    // How much later than its expiry a record may be swept. The wider, the more seldom a record
    // whose expiry moves with every write changes its place in the sweep index.
    Millis sweep_grain = std::chrono::minutes(5);
    Journal::Options journal = {};
  };

  // What it tells others, or is told. All must outlive it.
  struct Around {
    const Clock& clock;  // which never goes back
    Watchers& watchers;
    DeferredPartitions& deferred;
  };
  Writer(Connection connection, Turnstile turnstile, Around around, FailStop fail_stop,
         Options options);

  // Does what was submitted, then ends.
  ~Writer() override;

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Tasks are applied in the order in which they were submitted. Unavailable if too many wait, or
  // if there is no turn at writing. Any thread.
  void submit(std::shared_ptr<WriterTask> task);

  // Proves, in a transaction of its own, that the database can be written; or tells why not. Any
  // thread.
  void submit(std::shared_ptr<WriterCheck> check);

  WriterStatistics statistics() const;

  // Lets a sleeping writer see that there is something new.
  void wake() override;

 private:
  using Steady = std::chrono::steady_clock;
  using Tasks = std::vector<std::shared_ptr<WriterTask>>;
  using Checks = std::vector<std::shared_ptr<WriterCheck>>;

  struct Work {
    Tasks tasks;
    Checks checks;
    bool empty() const { return tasks.empty() && checks.empty(); }
  };

  void run();
  // Waits for work, and takes what there is. Empty: time to look around, or to end.
  Work take();
  void commitTogether(Tasks tasks);
  void answer(const Checks& checks);
  Result<> proveWritable();
  // One transaction.
  Result<> transact(const Tasks& tasks);
  Result<> applyAll(const Tasks& tasks);
  // Our turn at the turnstile, with a transaction begun.
  Result<Turnstile::Pass> beginTurn();
  Result<Turnstile::Pass> takeTurn(Millis patience);
  Millis patience() const;
  // Unavailable means that turns stay away: all who wait are refused.
  void noteTurn(const Result<Turnstile::Pass>& turn);
  void refuseWaiting(const Error& error);
  void checkpointIfDue();
  Result<> checkpoint();
  void noticeForeignChanges();
  // What the connection says; it differs from before when another process has written.
  Result<std::int64_t> dataVersion();

  const Options options_;
  const Clock& clock_;
  Watchers& watchers_;
  const FailStop fail_stop_;
  Connection::Wal wal_;
  Connection connection_;
  Turnstile turnstile_;
  BatchWriter batch_writer_;
  Statement begin_;
  Statement commit_;
  Statement data_version_;
  std::int64_t watched_version_ = 0;  // the data version that the watchers know
  std::int64_t written_version_ = 0;  // the one of the last transaction
  // Turns stay away.
  bool stalled_ = false;
  // What the last check found.
  bool writable_ = true;
  // A transaction found no room, and none has been proved since.
  bool needs_room_ = false;
  bool heartbeat_is_large_ = false;
  std::optional<Steady::time_point> last_written_;
  std::uint64_t checkpoint_at_frames_ = 0;
  Steady::time_point truncate_not_before_;
  bool truncate_hindered_ = false;

  std::mutex mutex_;
  std::condition_variable wake_;
  Work waiting_;           // guarded by mutex_
  bool sleeping_ = false;  // guarded by mutex_
  bool ending_ = false;    // guarded by mutex_

  struct Counters {
    std::atomic<std::uint64_t> commits = 0;
    std::atomic<std::uint64_t> transactions = 0;
    std::atomic<std::uint64_t> failed_transactions = 0;
    std::atomic<std::uint64_t> checkpoints = 0;
    std::atomic<std::uint64_t> wal_frames = 0;
  };
  Counters counters_;

  std::thread thread_;
};

}  // namespace nimbus::store::sqlite
