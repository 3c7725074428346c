#include "store/sqlite/sqlite_store.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "store/rules.h"
#include "store/sqlite/filesystem.h"
#include "store/sqlite/reader.h"
#include "store/sqlite/schema.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace nimbus::store::sqlite {

namespace asio = boost::asio;

namespace {

// EX_IOERR: tells a supervisor that the disk, not the program, is at fault.
constexpr int kExitDisk = 74;

void endProcess(const Error&) {
  std::_Exit(kExitDisk);
}

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
  CommitTask(Partition partition, std::optional<Fence> fence, Batch batch)
      : partition_(std::move(partition)), fence_(std::move(fence)), batch_(std::move(batch)) {}

  Result<> apply(BatchWriter& writer, Timestamp now) override {
    auto applied = writer.apply(partition_, fence_, batch_, now);
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

// Changes nothing, but takes a turn at writing.
class CheckTask final : public WriterTask {
 public:
  Result<> apply(BatchWriter&, Timestamp) override { return {}; }
  void finish(const Result<>& durable) override { done.set(durable); }

  OneShot<Result<>> done;
};

}  // namespace

// Threads that may wait for the disk, so that those of the server need not.
class SqliteStore::Readers {
 public:
  static Result<std::unique_ptr<Readers>> open(const std::filesystem::path& path,
                                               std::size_t count) {
    auto readers = std::unique_ptr<Readers>(new Readers(count));
    for (std::size_t i = 0; i < count; ++i) {
      NIMBUS_TRY(auto reader, Reader::open(path));
      readers->idle_.push_back(std::move(reader));
    }
    return readers;
  }
  ~Readers() { threads_.join(); }
  Readers(const Readers&) = delete;
  Readers& operator=(const Readers&) = delete;

  // Runs `ask(reader)` on a reader's thread. Whatever `ask` refers to must outlive the task.
  template <typename Ask>
  auto with(Ask ask) -> Task<std::invoke_result_t<Ask, Reader&>> {
    auto work = run(std::move(ask));
    co_return co_await asio::co_spawn(threads_, std::move(work), asio::use_awaitable);
  }

 private:
  explicit Readers(std::size_t count) : threads_(count) {}

  template <typename Ask>
  auto run(Ask ask) -> Task<std::invoke_result_t<Ask, Reader&>> {
    auto reader = borrow();
    auto answer = ask(*reader);
    giveBack(std::move(reader));
    co_return answer;
  }

  // There are as many readers as threads: one is always idle when a thread asks.
  std::unique_ptr<Reader> borrow() {
    const std::lock_guard lock(mutex_);
    auto reader = std::move(idle_.back());
    idle_.pop_back();
    return reader;
  }
  void giveBack(std::unique_ptr<Reader> reader) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(reader));
  }

  std::mutex mutex_;
  std::vector<std::unique_ptr<Reader>> idle_;  // guarded by mutex_
  asio::thread_pool threads_;
};

Result<std::unique_ptr<SqliteStore>> SqliteStore::open(Options options, const Clock& clock) {
  options.path = std::filesystem::absolute(options.path);
  NIMBUS_CHECK(checkLocal(options.path.parent_path()));
  std::filesystem::path turnstile_path = options.path;
  turnstile_path += "-turnstile";
  NIMBUS_TRY(Turnstile turnstile, Turnstile::open(turnstile_path));
  if (!options.writer.fail_stop) options.writer.fail_stop = endProcess;

  // Opening may recover a WAL that a crash left behind, and may change the schema: one at a time.
  auto pass = std::optional(turnstile.enter());
  NIMBUS_TRY(Connection connection, Connection::open(options.path, Connection::Mode::ReadWrite));
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
  NIMBUS_TRY(auto readers, Readers::open(options.path, options.readers));
  pass.reset();
  return std::unique_ptr<SqliteStore>(new SqliteStore(options, clock, std::move(connection),
                                                      std::move(turnstile), std::move(readers)));
}

SqliteStore::SqliteStore(const Options& options, const Clock& clock, Connection writer_connection,
                         Turnstile turnstile, std::unique_ptr<Readers> readers)
    : clock_(clock),
      synchronous_(options.synchronous),
      readers_(std::move(readers)),
      writer_(std::move(writer_connection), std::move(turnstile), clock, watchers_,
              options.writer) {}

SqliteStore::~SqliteStore() = default;

Description SqliteStore::describe() const {
  return {.backend = "sqlite",
          .durability = synchronous_ == Synchronous::Full ? Durability::Disk : Durability::Memory};
}

Timestamp SqliteStore::now() const {
  return clock_.now();
}

PendingCommit SqliteStore::commit(Partition partition, std::optional<Fence> fence, Batch batch) {
  const auto sound = validate(batch);
  auto task =
      std::make_shared<CommitTask>(std::move(partition), std::move(fence), std::move(batch));
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
  auto ask = [&](Reader& reader) { return reader.read(partition.name(), queries, clock_.now()); };
  co_return co_await readers_->with(ask);
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
  const auto task = std::make_shared<CheckTask>();
  writer_.submit(task);
  co_return co_await task->done.wait();
}

WriterStatistics SqliteStore::statistics() const {
  return writer_.statistics();
}

}  // namespace nimbus::store::sqlite
