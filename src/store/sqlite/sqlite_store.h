#pragma once
// The Store in one SQLite file: what Nimbus uses unless told otherwise. Several processes on one
// host may share the file.
//
// One thread writes (writer.h), a few read (reader.h). A commit is durable when its transaction's
// fsync has returned. If an fsync ever fails the process ends with exit code 74: what the kernel
// then holds is unknown, and a second fsync would not tell the truth. Time never goes back in a
// process, even when the host's clock does.

#include "base/clock.h"
#include "base/result.h"
#include "store/sqlite/monotone_clock.h"
#include "store/sqlite/reader_pool.h"
#include "store/sqlite/writer.h"
#include "store/store.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

namespace nimbus::store::sqlite {

// How a transaction reaches the disk.
enum class Synchronous : std::uint8_t {
  Full,    // fsync before the answer: survives power loss
  Normal,  // fsync at checkpoints only: power loss costs the newest commits, never consistency
  Off,     // no fsync: power loss may cost the whole file
};

struct Options {
  // The database; beside it lie its -wal and -shm files and the turnstile.
  std::filesystem::path path;
  Synchronous synchronous = Synchronous::Full;
  // Threads that answer reads; each has a connection.
  std::size_t readers = 2;
  // How long opening waits for other processes: one may be recovering the file after a crash, or
  // bringing it up to date.
  Millis open_timeout = std::chrono::seconds(30);
  Writer::Options writer;
  // See FailStop.
  std::function<void(const Error&)> fail_stop;
};

class SqliteStore final : public Store {
 public:
  // `clock` must outlive the store; all processes that share the file use the host's.
  //
  // InvalidArgument if the directory is missing or on a network file system; Unprocessable if the
  // file is of a newer version or of another program; Unavailable if it cannot be opened, or if
  // another process does not let go of it. Blocks, up to open_timeout and some seconds.
  static Result<std::unique_ptr<SqliteStore>> open(Options options, const Clock& clock);

  // Finishes the commits that were begun.
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  Description describe() const override;
  Timestamp now() const override;
  Task<Result<std::vector<Answer>>> read(Partition partition, std::vector<Query> queries) override;
  Task<Result<DirectoryPage>> readDirectory(std::string directory, std::string after,
                                            std::string prefix, std::size_t limit) override;
  std::unique_ptr<Watch> watch(Partition partition, std::function<void()> changed) override;
  Task<Result<Swept>> sweep(Millis budget) override;
  Task<Result<>> check() override;

  WriterStatistics statistics() const;

 private:
  PendingCommit begin(CommitOrder order) override;
  // Brings the rows of the partition, or of all, to where readers find them.
  Task<Result<>> settle(std::optional<Partition> partition);

  SqliteStore(const Options& options, const Clock& clock, Connection writer_connection,
              Turnstile turnstile, std::unique_ptr<ReaderPool> readers);

  const MonotoneClock clock_;
  const Synchronous synchronous_;
  Watchers watchers_;
  DeferredPartitions deferred_;
  std::unique_ptr<ReaderPool> readers_;
  Writer writer_;
};

}  // namespace nimbus::store::sqlite
