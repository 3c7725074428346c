#include "store/sqlite/writer.h"

#include "base/log.h"
#include "base/one_shot.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

namespace nimbus::store::sqlite {

Writer::Writer(Connection connection, Turnstile turnstile, const Clock& clock, Watchers& watchers,
               Options options)
    : options_(std::move(options)),
      clock_(clock),
      watchers_(watchers),
      connection_(std::move(connection)),
      turnstile_(std::move(turnstile)),
      batch_writer_(connection_, options_.sweep_grain),
      begin_(connection_, "BEGIN IMMEDIATE"),
      commit_(connection_, "COMMIT"),
      data_version_(connection_, "PRAGMA data_version") {
  connection_.countWalFrames(wal_frames_);
  thread_ = std::thread([this] { run(); });
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void Writer::submit(std::shared_ptr<WriterTask> task) {
  bool sleeping = false;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
    sleeping = std::exchange(sleeping_, false);
  }
  // A writer at work looks again by itself: under load nobody pays for waking it.
  if (sleeping) wake_.notify_one();
}

void Writer::wake() {
  {
    const std::lock_guard lock(mutex_);
    sleeping_ = false;
  }
  wake_.notify_one();
}

Writer::Tasks Writer::take() {
  std::unique_lock lock(mutex_);
  if (waiting_.empty() && !ending_) {
    sleeping_ = true;
    const auto awake = [this] { return !waiting_.empty() || ending_ || !sleeping_; };
    if (watchers_.empty()) {
      wake_.wait(lock, awake);
    } else {
      wake_.wait_for(lock, options_.foreign_change_poll, awake);
    }
    sleeping_ = false;
  }
  if (waiting_.size() <= options_.max_tasks_per_transaction) return std::exchange(waiting_, {});
  const auto end =
      waiting_.begin() + static_cast<std::ptrdiff_t>(options_.max_tasks_per_transaction);
  Tasks taken(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  return taken;
}

void Writer::run() {
  ::pthread_setname_np(::pthread_self(), "store-writer");
  while (true) {
    Tasks tasks = take();
    if (!tasks.empty()) {
      commitTogether(std::move(tasks));
      checkpointIfDue();
    } else {
      const std::lock_guard lock(mutex_);
      if (ending_ && waiting_.empty()) return;
    }
    noticeForeignChanges();
  }
}

void Writer::commitTogether(Tasks tasks) {
  Result<> durable = transact(tasks);
  if (!durable) {
    ++counters_.failed_transactions;
    stopOnFatal(durable.error());
    log::error("a transaction failed",
               {{"reason", durable.error().message()}, {"commits", tasks.size()}});
    // Nothing was written: SQLite reports a full disk or a missing lock before its commit point.
    durable = forCallers(durable.error(), Outcome::NotApplied);
  }
  ++counters_.transactions;
  counters_.tasks += tasks.size();
  const bool watched = durable && !watchers_.empty();
  const ResumeTogether together;
  for (auto& task : tasks) {
    task->finish(durable);
    const Partition* const changed = watched ? task->changed() : nullptr;
    if (changed != nullptr) watchers_.notify(changed->name());
    // Let go before its caller is resumed: the caller's thread made it, and frees it for less.
    task.reset();
  }
}

Result<> Writer::transact(const Tasks& tasks) {
  const auto pass = turnstile_.enter();
  NIMBUS_CHECK(begin_.run());
  // One moment for the whole transaction, taken inside it: no later one, here or in another
  // process, sees an earlier time.
  const Timestamp now = clock_.now();
  const auto applyAll = [&]() -> Result<> {
    {
      const ResumeTogether together;
      for (const auto& task : tasks) NIMBUS_CHECK(task->apply(batch_writer_, now));
    }
    NIMBUS_CHECK(commit_.run());
    return {};
  };
  auto applied = applyAll();
  if (!applied && connection_.inTransaction()) static_cast<void>(connection_.execute("ROLLBACK"));
  return applied;
}

void Writer::checkpointIfDue() {
  counters_.wal_frames = wal_frames_;
  if (wal_frames_ < options_.checkpoint_after_frames) return;
  // After the answers: whoever waits for this batch does not wait for the checkpoint.
  const auto pass = turnstile_.enter();
  const auto how = wal_frames_ < options_.truncate_after_frames ? Connection::Checkpoint::Passive
                                                                : Connection::Checkpoint::Truncate;
  const auto left = connection_.checkpoint(how);
  ++counters_.checkpoints;
  if (!left) {
    stopOnFatal(left.error());
    log::warn("a checkpoint failed and will be tried again", {{"reason", left.error().message()}});
    return;
  }
  if (*left == 0) wal_frames_ = 0;
  counters_.wal_frames = wal_frames_;
}

void Writer::noticeForeignChanges() {
  if (watchers_.empty()) return;
  auto rows = data_version_.query();
  const auto found = rows.next();
  if (!found || !*found) return;
  const std::int64_t version = rows.integer(0);
  if (std::exchange(last_data_version_, version) != version) watchers_.notifyAll();
}

void Writer::stopOnFatal(const Error& error) const {
  if (!isFatal(error)) return;
  log::error("the database cannot be trusted any more; stopping so that a new start can check it",
             {{"reason", error.message()}});
  options_.fail_stop(error);
}

WriterStatistics Writer::statistics() const {
  return {.transactions = counters_.transactions,
          .tasks = counters_.tasks,
          .failed_transactions = counters_.failed_transactions,
          .checkpoints = counters_.checkpoints,
          .wal_frames = counters_.wal_frames};
}

}  // namespace nimbus::store::sqlite
