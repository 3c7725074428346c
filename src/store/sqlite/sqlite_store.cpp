#include "store/sqlite/sqlite_store.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "store/rules.h"
#include "store/sqlite/filesystem.h"
#include "store/sqlite/schema.h"
#include "store/sqlite/wal_vfs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

namespace nimbus::store::sqlite {

namespace {

std::string_view pragmaValue(Synchronous synchronous) {
  switch (synchronous) {
    case Synchronous::Full:
      return "FULL";
    case Synchronous::Normal:
      return "NORMAL";
    case Synchronous::Off:
      break;
  }
  return "OFF";
}

// One commit, from the call to its two answers.
class CommitTask final : public WriterTask, public CommitState {
 public:
  explicit CommitTask(CommitOrder order)
      : CommitState(std::move(order.chained.listener)),
        after_(std::move(order.chained.after)),
        partition_(std::move(order.partition)),
        fence_(std::move(order.fence)),
        batch_(std::move(order.batch)) {}

  Result<> apply(BatchWriter& writer, Timestamp now) override {
    // What was begun before has been applied before, in this transaction or an earlier one.
    const bool broken = after_ && after_->hasFailed();
    after_.reset();
    auto applied =
        broken ? Result<Applied>(chainBroken()) : writer.apply(partition_, fence_, batch_, now);
    if (applied) {
      applied_ = true;
      CommitState::apply(*std::move(applied));
    } else if (isDatabaseError(applied.error())) {
      return std::move(applied).error();
    } else {
      refused_ = true;
      refuse(applied.error());
    }
    return {};
  }

  void finish(const Result<>& durable) override {
    if (refused_) return;
    if (applied_) {
      CommitState::finish(durable);
    } else {
      refuse(durable.error());  // the transaction ended before its turn
    }
  }

  const Partition* changed() const override { return applied_ ? &partition_ : nullptr; }

 private:
  std::shared_ptr<const CommitListener> after_;  // null: none, or it has been looked at
  const Partition partition_;
  const std::optional<Fence> fence_;
  const Batch batch_;
  bool applied_ = false;
  bool refused_ = false;
};

// One slice of a sweep: small, so that commits never wait long behind it.
class SweepTask final : public WriterTask {
 public:
  static constexpr std::uint64_t kSlice = 256;

  Result<> apply(BatchWriter& writer, Timestamp now) override {
    NIMBUS_TRY(step_, writer.sweep(now, kSlice));
    return {};
  }
  void finish(const Result<>& durable) override {
    if (durable) {
      done.set(step_);
    } else {
      done.set(durable.error());
    }
  }

  OneShot<Result<BatchWriter::SweepStep>> done;

 private:
  BatchWriter::SweepStep step_;
};

// Brings deferred rows to where readers find them.
class SettleTask final : public WriterTask {
 public:
  explicit SettleTask(std::optional<Partition> partition) : partition_(std::move(partition)) {}

  Result<> apply(BatchWriter& writer, Timestamp) override {
    return partition_ ? writer.settle(partition_->name()) : writer.settleAll();
  }
  void finish(const Result<>& durable) override { done.set(durable); }

  OneShot<Result<>> done;

 private:
  const std::optional<Partition> partition_;
};

// Opening may recover a WAL that a crash left behind, and may change the schema: one at a time.
// Whoever waits for it at the start of a server wants to know what for.
Result<Turnstile::Pass> takeTurn(Turnstile& turnstile, const std::filesystem::path& path,
                                 Millis timeout) {
  constexpr Millis kSilence(1000);
  const Millis silence = std::min(kSilence, timeout);
  if (auto pass = turnstile.enter(silence); pass) return *std::move(pass);
  log::warn("waiting for another process that has the store",
            {{"turnstile", path.string()}, {"at_most_ms", timeout.count()}});
  if (auto pass = turnstile.enter(timeout - silence); pass) return *std::move(pass);
  return Error(
      Code::Unavailable,
      fmt::format("another process has had the store for {} s and does not let go of it; "
                  "it may be frozen ('fuser {}' names who has it open)",
                  std::chrono::round<std::chrono::seconds>(timeout).count(), path.string()));
}

}  // namespace

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(Options options, const Clock& clock) {
  options.path = std::filesystem::absolute(options.path);
  NIMBUS_CHECK(checkLocal(options.path.parent_path()));
  std::filesystem::path turnstile_path = options.path;
  turnstile_path += "-turnstile";
  NIMBUS_TRY(Turnstile turnstile, Turnstile::open(turnstile_path));
  NIMBUS_TRY(auto turn, takeTurn(turnstile, turnstile_path, options.open_timeout));
  auto pass = std::optional(std::move(turn));
  const char* const vfs = options.synchronous == Synchronous::Full ? walVfs() : nullptr;
  NIMBUS_TRY(Connection connection,
             Connection::open(options.path, Connection::Mode::ReadWrite, vfs));
  NIMBUS_TRY(const std::string journal, connection.text("PRAGMA journal_mode=WAL"));
  if (journal != "wal") {
    return Error(Code::Unavailable,
                 fmt::format("{} cannot use a write-ahead log (journal mode is {})",
                             options.path.string(), journal));
  }
  const std::string synchronous =
      fmt::format("PRAGMA synchronous={}", pragmaValue(options.synchronous));
  NIMBUS_CHECK(connection.execute(synchronous.c_str()));
  // The default of 2 MiB would read a busy server's pages again and again.
  NIMBUS_CHECK(connection.execute("PRAGMA cache_size=-65536"));
  NIMBUS_CHECK(prepareSchema(connection));
  NIMBUS_TRY(auto readers,
             ReaderPool::open(options.path, options.readers, FailStop(options.fail_stop)));
  pass.reset();  // the writer has the same turnstile, and takes turns of its own
  return std::unique_ptr<SqliteStore>(new SqliteStore(options, clock, std::move(connection),
                                                      std::move(turnstile), std::move(readers)));
}

SqliteStore::SqliteStore(const Options& options, const Clock& clock, Connection writer_connection,
                         Turnstile turnstile, std::unique_ptr<ReaderPool> readers)
    : clock_(clock),
      synchronous_(options.synchronous),
      readers_(std::move(readers)),
      writer_(std::move(writer_connection), std::move(turnstile), {clock_, watchers_, deferred_},
              FailStop(options.fail_stop), options.writer) {}

SqliteStore::~SqliteStore() = default;

Description SqliteStore::describe() const {
  return {.backend = "sqlite",
          .durability = synchronous_ == Synchronous::Full ? Durability::Disk : Durability::Memory};
}

Timestamp SqliteStore::now() const {
  return clock_.now();
}

PendingCommit SqliteStore::begin(CommitOrder order) {
  const auto sound = validate(order.batch);
  auto task = std::make_shared<CommitTask>(std::move(order));
  if (sound) {
    writer_.submit(task);
  } else {
    task->refuse(sound.error());
  }
  return PendingCommit(std::move(task));
}

Task<Result<std::vector<Answer>>> SqliteStore::read(Partition partition,
                                                    std::vector<Query> queries) {
  for (const Query& query : queries) NIMBUS_CO_CHECK(checkQuery(query));
  bool is_settled = true;
  if (deferred_.has(partition.name())) is_settled = (co_await settle(partition)).has_value();
  if (is_settled) {
    // In this order: if it knew nothing a moment ago, it said that there was nothing.
    const std::int64_t writer = deferred_.knownWriter();
    auto ask = [&](Reader& reader) {
      return reader.read(partition.name(), queries, clock_.now(), writer);
    };
    NIMBUS_CO_TRY(auto answers, co_await readers_->with(ask));
    if (answers) co_return *std::move(answers);
    // What another process defers from now on was not durable when we were asked.
    is_settled = (co_await settle(std::nullopt)).has_value();
  }
  auto ask = [&](Reader& reader) {
    return is_settled ? reader.read(partition.name(), queries, clock_.now())
                      : reader.readReplayed(partition.name(), queries, clock_.now());
  };
  co_return co_await readers_->with(ask);
}

Task<Result<>> SqliteStore::settle(std::optional<Partition> partition) {
  const auto task = std::make_shared<SettleTask>(std::move(partition));
  writer_.submit(task);
  co_return co_await task->done.wait();
}

Task<Result<DirectoryPage>> SqliteStore::readDirectory(std::string directory, std::string after,
                                                       std::string prefix, std::size_t limit) {
  NIMBUS_CO_CHECK(checkLimit(limit));
  auto ask = [&](Reader& reader) { return reader.readDirectory(directory, after, prefix, limit); };
  co_return co_await readers_->with(ask);
}

std::unique_ptr<Watch> SqliteStore::watch(Partition partition, std::function<void()> changed) {
  auto watch = watchers_.add(partition, std::move(changed));
  writer_.wake();
  return watch;
}

Task<Result<Swept>> SqliteStore::sweep(Millis budget) {
  const auto start = std::chrono::steady_clock::now();
  Swept swept;
  while (true) {
    const auto slice = std::make_shared<SweepTask>();
    writer_.submit(slice);
    NIMBUS_CO_TRY(const auto step, co_await slice->done.wait());
    swept.removed += step.removed;
    swept.more = step.more;
    const bool spent = std::chrono::steady_clock::now() - start >= budget;
    if (!swept.more || spent) co_return swept;
  }
}

Task<Result<>> SqliteStore::check() {
  const auto check = std::make_shared<WriterCheck>();
  writer_.submit(check);
  co_return co_await check->done.wait();
}

WriterStatistics SqliteStore::statistics() const {
  return writer_.statistics();
}

}  // namespace nimbus::store::sqlite
