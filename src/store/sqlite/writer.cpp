#include "store/sqlite/writer.h"

#include "base/log.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <string>
#include <utility>

namespace nimbus::store::sqlite {
namespace {

// The record that is written to see whether one can be.
class Heartbeat final : public WriterTask {
 public:
  explicit Heartbeat(std::size_t bytes) {
    batch_.operations.emplace_back(op::Put{.space = "heartbeat",
                                           .key = "last",
                                           .value = std::string(bytes, '\0'),
                                           .expiry = {},
                                           .expected = {}});
  }

  Result<> apply(BatchWriter& writer, Timestamp now) override {
    NIMBUS_CHECK(writer.apply(partition_, std::nullopt, batch_, now));
    return {};
  }
  void finish(const Result<>&) override {}

 private:
  const Partition partition_{"store", {"heartbeat"}};
  Batch batch_;
};

class SettleAll final : public WriterTask {
 public:
  Result<> apply(BatchWriter& writer, Timestamp) override { return writer.settleAll(); }
  void finish(const Result<>&) override {}
};

// A full disk has room for a page now and then: the WAL has some to spare. Commits work again when
// there is room for a large one.
constexpr std::size_t kRoomBytes = 1U << 20U;

}  // namespace

Writer::Writer(Connection connection, Turnstile turnstile, Around around, FailStop fail_stop,
               Options options)
    : options_(options),
      clock_(around.clock),
      watchers_(around.watchers),
      fail_stop_(std::move(fail_stop)),
      connection_(std::move(connection)),
      turnstile_(std::move(turnstile)),
      batch_writer_(connection_, {options_.sweep_grain, options_.journal}, around.deferred),
      begin_(connection_, "BEGIN IMMEDIATE"),
      commit_(connection_, "COMMIT"),
      data_version_(connection_, "PRAGMA data_version"),
      checkpoint_at_frames_(options_.checkpoint_after_frames) {
  connection_.follow(wal_);
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
  std::unique_lock lock(mutex_);
  if (waiting_.tasks.size() >= options_.max_waiting_tasks) {
    lock.unlock();
    task->finish(Error(Code::Unavailable, "too many commits are waiting for the disk"));
    return;
  }
  waiting_.tasks.push_back(std::move(task));
  const bool sleeping = std::exchange(sleeping_, false);
  lock.unlock();
  // A writer at work looks again by itself: under load nobody pays for waking it.
  if (sleeping) WakeTogether::wake(*this);
}

void Writer::submit(std::shared_ptr<WriterCheck> check) {
  {
    const std::lock_guard lock(mutex_);
    waiting_.checks.push_back(std::move(check));
    sleeping_ = false;
  }
  wake_.notify_one();
}

void Writer::wake() {
  {
    const std::lock_guard lock(mutex_);
    sleeping_ = false;
  }
  wake_.notify_one();
}

Writer::Work Writer::take() {
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
  Tasks& tasks = waiting_.tasks;
  if (tasks.size() <= options_.max_tasks_per_transaction) return std::exchange(waiting_, {});
  const auto end = tasks.begin() + static_cast<std::ptrdiff_t>(options_.max_tasks_per_transaction);
  Work taken;
  taken.checks = std::exchange(waiting_.checks, {});
  taken.tasks.assign(std::make_move_iterator(tasks.begin()), std::make_move_iterator(end));
  tasks.erase(tasks.begin(), end);
  return taken;
}

void Writer::run() {
  ::pthread_setname_np(::pthread_self(), "store-writer");
  while (true) {
    Work work = take();
    if (work.empty()) {
      const std::lock_guard lock(mutex_);
      if (ending_ && waiting_.empty()) break;
    }
    if (!work.tasks.empty()) commitTogether(std::move(work.tasks));
    if (!work.checks.empty()) answer(work.checks);
    checkpointIfDue();
    noticeForeignChanges();
  }
  // For whoever looks at the file next, with whatever tool. If it cannot be done now it is done
  // then.
  if (batch_writer_.hasDeferred()) static_cast<void>(transact({std::make_shared<SettleAll>()}));
}

void Writer::commitTogether(Tasks tasks) {
  Result<> durable = transact(tasks);
  if (!durable) {
    ++counters_.failed_transactions;
    log::error("a transaction failed",
               {{"reason", durable.error().message()}, {"commits", tasks.size()}});
    // Nothing was written: SQLite reports a full disk or a missing lock before its commit point.
    durable = forCallers(durable.error(), Outcome::NotApplied);
  }
  const bool watched = !watchers_.empty();
  std::uint64_t commits = 0;
  {
    const ResumeTogether together;
    for (auto& task : tasks) {
      task->finish(durable);
      const Partition* const changed = durable ? task->changed() : nullptr;
      if (changed != nullptr) ++commits;
      if (changed != nullptr && watched) watchers_.notify(changed->name());
      // Let go before its caller is resumed: the caller's thread made it, and frees it for less.
      task.reset();
    }
    counters_.commits += commits;
    if (commits > 0) ++counters_.transactions;
  }
}

void Writer::answer(const Checks& checks) {
  Result<> writable = proveWritable();
  if (std::exchange(writable_, writable.has_value()) != writable.has_value()) {
    if (writable) {
      log::info("the store can be written again");
    } else {
      log::error("the store cannot be written", {{"reason", writable.error().message()}});
    }
  }
  if (!writable) writable = forCallers(writable.error(), Outcome::NotApplied);
  const ResumeTogether together;
  for (const auto& check : checks) check->done.set(writable);
}

Result<> Writer::proveWritable() {
  // What was written a moment ago is proof enough. A turn is taken all the same: that others let us
  // write is a thing to be proved, too.
  const bool proved =
      last_written_ && Steady::now() - *last_written_ < options_.heartbeat_every && !needs_room_;
  Tasks tasks;
  // A large one is taken back by the next.
  const bool large = needs_room_;
  if (!proved || heartbeat_is_large_) {
    tasks.push_back(std::make_shared<Heartbeat>(large ? kRoomBytes : 0));
  }
  NIMBUS_CHECK(transact(tasks));
  heartbeat_is_large_ = large;
  needs_room_ = false;
  return {};
}

Result<> Writer::transact(const Tasks& tasks) {
  const auto turn = beginTurn();
  noteTurn(turn);
  if (!turn) return turn.error();
  auto applied = applyAll(tasks);
  if (applied) return {};
  if (connection_.inTransaction()) static_cast<void>(connection_.execute("ROLLBACK"));
  batch_writer_.forgetAll();
  fail_stop_.check(applied.error());
  if (applied.error().code() == Code::InsufficientStorage) needs_room_ = true;
  return applied;
}

Result<> Writer::applyAll(const Tasks& tasks) {
  // One moment for the whole transaction, taken inside it: no later one of this process sees an
  // earlier time, and none of another does unless the host's clock was set back meanwhile.
  const Timestamp now = clock_.now();
  const std::uint64_t written = wal_.transactions;
  NIMBUS_CHECK(batch_writer_.beginTransaction());
  {
    const ResumeTogether together;
    for (const auto& task : tasks) NIMBUS_CHECK(task->apply(batch_writer_, now));
  }
  NIMBUS_CHECK(batch_writer_.finishTransaction());
  NIMBUS_CHECK(commit_.run());
  batch_writer_.committed();
  if (wal_.transactions != written) {
    last_written_ = Steady::now();
    counters_.wal_frames = wal_.frames;
  }
  return {};
}

Millis Writer::patience() const {
  return stalled_ ? options_.turn_retry_timeout : options_.turn_timeout;
}

Result<Turnstile::Pass> Writer::takeTurn(Millis patience) {
  if (auto pass = turnstile_.enter(patience); pass) return *std::move(pass);
  return Error(Code::Unavailable,
               fmt::format("another process has had the store for {} ms and does not let go of it; "
                           "it may be frozen",
                           patience.count()));
}

Result<Turnstile::Pass> Writer::beginTurn() {
  const auto deadline = Steady::now() + patience();
  NIMBUS_TRY(auto pass, takeTurn(patience()));
  const auto left = std::chrono::duration_cast<Millis>(deadline - Steady::now());
  connection_.setBusyTimeout(std::max(left, Millis(0)));
  if (auto begun = begin_.run(); !begun) {
    fail_stop_.check(begun.error());
    return std::move(begun).error();
  }
  const auto version = dataVersion();
  if (!version || std::exchange(written_version_, *version) != *version) batch_writer_.forgetAll();
  return pass;
}

Result<std::int64_t> Writer::dataVersion() {
  auto rows = data_version_.query();
  NIMBUS_CHECK(rows.next());
  return rows.integer(0);
}

void Writer::noteTurn(const Result<Turnstile::Pass>& turn) {
  const bool stalled = !turn && turn.error().code() == Code::Unavailable;
  if (stalled) refuseWaiting(forCallers(turn.error(), Outcome::NotApplied));
  if (std::exchange(stalled_, stalled) == stalled) return;
  if (stalled) {
    log::error("no turn at writing; commits are refused until there is one",
               {{"reason", turn.error().message()}});
  } else {
    log::info("there are turns at writing again");
  }
}

// Whoever came while we waited in vain would otherwise wait just as long again.
void Writer::refuseWaiting(const Error& error) {
  Work refused;
  {
    const std::lock_guard lock(mutex_);
    refused = std::exchange(waiting_, {});
  }
  const ResumeTogether together;
  for (const auto& task : refused.tasks) task->finish(error);
  for (const auto& check : refused.checks) check->done.set(error);
}

void Writer::checkpointIfDue() {
  if (wal_.frames < options_.checkpoint_after_frames) {
    // It has started anew.
    checkpoint_at_frames_ = options_.checkpoint_after_frames;
    truncate_hindered_ = false;
  } else if (wal_.frames >= checkpoint_at_frames_) {
    // While readers keep it from starting anew it is long after every transaction; to copy a little
    // each time would cost an fsync of the database each time.
    checkpoint_at_frames_ = wal_.frames + 1 + options_.checkpoint_after_frames / 8;
    if (const auto done = checkpoint(); !done) {
      log::warn("a checkpoint failed and will be tried again",
                {{"reason", done.error().message()}});
    }
  }
}

// After the answers: whoever waits for a batch does not wait for the checkpoint.
Result<> Writer::checkpoint() {
  const auto now = Steady::now();
  const bool truncate =
      wal_.frames >= options_.truncate_after_frames && now >= truncate_not_before_;
  // A turn, although nothing is written: see turnstile.h.
  const auto turn = takeTurn(patience());
  if (!turn) {
    noteTurn(turn);
    return turn.error();
  }
  connection_.setBusyTimeout(truncate ? options_.truncate_patience : Millis(0));
  const auto done = connection_.checkpoint(truncate ? Connection::Checkpoint::Truncate
                                                    : Connection::Checkpoint::Passive);
  if (!done) {
    fail_stop_.check(done.error());
    return done.error();
  }
  ++counters_.checkpoints;
  counters_.wal_frames = done->frames_left;
  if (!truncate) return {};
  truncate_not_before_ = Steady::now() + options_.truncate_every;
  if (done->hindered && !std::exchange(truncate_hindered_, true)) {
    log::warn(
        "somebody has been reading the database for long, and keeps its write-ahead log "
        "from starting anew: it grows until they end",
        {{"frames", wal_.frames}});
  }
  return {};
}

void Writer::noticeForeignChanges() {
  if (watchers_.empty()) return;
  const auto version = dataVersion();
  if (!version) return;
  if (std::exchange(watched_version_, *version) != *version) watchers_.notifyAll();
}

WriterStatistics Writer::statistics() const {
  return {.commits = counters_.commits,
          .transactions = counters_.transactions,
          .failed_transactions = counters_.failed_transactions,
          .checkpoints = counters_.checkpoints,
          .wal_frames = counters_.wal_frames};
}

}  // namespace nimbus::store::sqlite
