#pragma once
// The one thread of a process that writes to the database.
//
// Group commit: whatever piled up while the last transaction was being made durable becomes the
// next one, so that many commits share one fsync and none waits for a timer. Results are handed
// back as soon as a batch is applied; durability is told when the transaction has been committed.

#include "base/clock.h"
#include "base/result.h"
#include "store/sqlite/batch_writer.h"
#include "store/sqlite/database.h"
#include "store/sqlite/turnstile.h"
#include "store/watchers.h"

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace nimbus::store::sqlite {

// Something to be done in a transaction of the writer. Called on the writer's thread.
class WriterTask {
 public:
  virtual ~WriterTask() = default;

  // An error of the database (isDatabaseError) ends the transaction for all in it; finish() then
  // tells. What is merely refused is the task's own affair.
  virtual Result<> apply(BatchWriter& writer, Timestamp now) = 0;

  // After the transaction was committed or given up.
  virtual void finish(const Result<>& durable) = 0;

  // The partition that changed; nothing if none did.
  virtual const Partition* changed() const { return nullptr; }
};

// What the writer has done since it was started.
struct WriterStatistics {
  std::uint64_t transactions = 0;
  std::uint64_t tasks = 0;
  std::uint64_t failed_transactions = 0;
  std::uint64_t checkpoints = 0;
  std::uint64_t wal_frames = 0;  // not yet copied into the database
};

class Writer {
 public:
  struct Options {
    // At most this many tasks share a transaction: bounds how long the first of them waits, and
    // how long other processes wait at the turnstile.
    std::size_t max_tasks_per_transaction = 4096;
    // The WAL is copied back into the database when it has grown to this many pages (of 4 KiB).
    std::uint64_t checkpoint_after_frames = 8192;
    // If readers kept it from starting anew and it grew to this many, the writer waits for them.
    std::uint64_t truncate_after_frames = 65536;
    // How soon a change by another process is noticed, while anybody watches.
    Millis foreign_change_poll = Millis(20);
    // How much later than its expiry a record may be swept. The wider, the more seldom a record
    // whose expiry moves with every write changes its place in the sweep index.
    Millis sweep_grain = std::chrono::minutes(5);
    // Called when the file can no longer be trusted. Must not return.
    std::function<void(const Error&)> fail_stop;
  };

  // `clock` and `watchers` must outlive the Writer.
  Writer(Connection connection, Turnstile turnstile, const Clock& clock, Watchers& watchers,
         Options options);

  // Does what was submitted, then ends.
  ~Writer();

  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  // Tasks are applied in the order in which they were submitted. Any thread.
  void submit(std::shared_ptr<WriterTask> task);

  WriterStatistics statistics() const;

  // Lets a sleeping writer see that somebody watches now.
  void wake();

 private:
  using Tasks = std::vector<std::shared_ptr<WriterTask>>;

  void run();
  // Waits for tasks, and takes them all. Empty: time to look around, or to end.
  Tasks take();
  void commitTogether(Tasks tasks);
  Result<> transact(const Tasks& tasks);
  void checkpointIfDue();
  void noticeForeignChanges();
  void stopOnFatal(const Error& error) const;

  const Options options_;
  const Clock& clock_;
  Watchers& watchers_;
  Connection connection_;
  Turnstile turnstile_;
  BatchWriter batch_writer_;
  Statement begin_;
  Statement commit_;
  Statement data_version_;
  std::int64_t last_data_version_ = 0;
  std::uint64_t wal_frames_ = 0;  // set by SQLite's hook in each commit

  std::mutex mutex_;
  std::condition_variable wake_;
  Tasks waiting_;          // guarded by mutex_
  bool sleeping_ = false;  // guarded by mutex_
  bool ending_ = false;    // guarded by mutex_

  struct Counters {
    std::atomic<std::uint64_t> transactions = 0;
    std::atomic<std::uint64_t> tasks = 0;
    std::atomic<std::uint64_t> failed_transactions = 0;
    std::atomic<std::uint64_t> checkpoints = 0;
    std::atomic<std::uint64_t> wal_frames = 0;
  };
  Counters counters_;

  std::thread thread_;
};

}  // namespace nimbus::store::sqlite
