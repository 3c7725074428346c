#include "server/open_store.h"

#include "store/sqlite/sqlite_store.h"

#include <filesystem>
#include <functional>
#include <utility>

namespace nimbus::server {
namespace {

store::sqlite::Synchronous synchronous(SqliteSynchronous configured) {
  switch (configured) {
    case SqliteSynchronous::Full:
      return store::sqlite::Synchronous::Full;
    case SqliteSynchronous::Normal:
      return store::sqlite::Synchronous::Normal;
    case SqliteSynchronous::Off:
      break;
  }
  return store::sqlite::Synchronous::Off;
}

void addMetrics(Metrics& metrics, const store::sqlite::SqliteStore& store) {
  using store::sqlite::WriterStatistics;
  const auto add = [&](Metrics::Kind kind, const char* name, const char* help,
                       std::uint64_t WriterStatistics::*figure) {
    metrics.onScrape(kind, name, help,
                     [&store, figure] { return static_cast<double>(store.statistics().*figure); });
  };
  add(Metrics::Kind::Counter, "nimbus_store_commits_total",
      "Commits made durable; not those that were refused, nor the store's own upkeep.",
      &WriterStatistics::commits);
  add(Metrics::Kind::Counter, "nimbus_store_transactions_total",
      "Transactions that made commits durable; commits divided by this is the size of a batch.",
      &WriterStatistics::transactions);
  add(Metrics::Kind::Counter, "nimbus_store_failed_transactions_total",
      "Transactions that were given up: a full disk, a lock that did not come.",
      &WriterStatistics::failed_transactions);
  add(Metrics::Kind::Counter, "nimbus_store_checkpoints_total",
      "Times the write-ahead log was copied into the database.", &WriterStatistics::checkpoints);
  add(Metrics::Kind::Gauge, "nimbus_store_wal_frames",
      "Pages in the write-ahead log, not yet copied into the database.",
      &WriterStatistics::wal_frames);
}

Result<std::unique_ptr<store::Store>> openSqlite(const Config& config, const Clock& clock,
                                                 Metrics& metrics) {
  if (!config.gateway.sqlite_wal_mode) {
    return Error(Code::InvalidArgument,
                 "gateway.store.sqlite.walMode: the store cannot do without its write-ahead log; "
                 "leave the setting out");
  }
  store::sqlite::Options options;
  options.path = config.gateway.sqlite_path.empty()
                     ? std::filesystem::path(config.server.data) / "nimbus.db"
                     : std::filesystem::path(config.gateway.sqlite_path);
  options.synchronous = synchronous(config.store.sqlite_synchronous);
  NIMBUS_TRY(auto store, store::sqlite::SqliteStore::open(std::move(options), clock));
  addMetrics(metrics, *store);
  return std::unique_ptr<store::Store>(std::move(store));
}

}  // namespace

Result<std::unique_ptr<store::Store>> openStore(const Config& config, const Clock& clock,
                                                Metrics& metrics) {
  switch (config.gateway.store_backend) {
    case StoreBackend::Sqlite:
      return openSqlite(config, clock, metrics);
    case StoreBackend::Redis:
      break;
  }
  return Error(Code::InvalidArgument,
               "this version keeps its data in SQLite only; leave --store and "
               "gateway.store.backend out, or set them to sqlite");
}

}  // namespace nimbus::server
