#include "server/open_store.h"

#include "redis/address.h"
#include "redis/transport.h"
#include "store/redis/redis_store.h"
#include "store/sqlite/sqlite_store.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
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

void addMetrics(Metrics& metrics, const store::redis::RedisStore& store) {
  metrics.onScrape(Metrics::Kind::Counter, "nimbus_store_commits_total",
                   "Commits made durable; not those that were refused, nor the store's own upkeep.",
                   [&store] { return static_cast<double>(store.statistics().commits); });
  metrics.onScrape(Metrics::Kind::Counter, "nimbus_store_failed_transactions_total",
                   "Commits that were given up: Redis was away, or an answer was lost.",
                   [&store] { return static_cast<double>(store.statistics().failed); });
}

Result<std::string> firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line) || line.empty()) {
    return Error(Code::InvalidArgument,
                 fmt::format("gateway.store.redis.password_file: {} has no first line", path));
  }
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

// Where Redis is, by whichever of its names was used.
Result<redis::Url> redisUrl(const Config& config) {
  if (!config.gateway.redis.url.empty()) return redis::parseUrl(config.gateway.redis.url);
  redis::Url url;
  NIMBUS_TRY(auto address, redis::parseAddress(config.state.redis_addr));
  url.addresses.push_back(std::move(address));
  url.credentials.password = config.state.redis_password;
  url.database = config.state.redis_db;
  return url;
}

Result<std::unique_ptr<store::Store>> openRedis(const Config& config, Metrics& metrics) {
  const RedisConfig& redis = config.gateway.redis;
  NIMBUS_TRY(auto url, redisUrl(config));
  store::redis::Options options;
  options.client.addresses = std::move(url.addresses);
  options.client.cluster = redis.cluster || url.cluster;
  options.client.sentinel = redis.sentinel;
  auto& connection = options.client.connection;
  connection.credentials = std::move(url.credentials);
  if (!redis.username.empty()) connection.credentials.username = redis.username;
  if (!redis.password_file.empty()) {
    NIMBUS_TRY(connection.credentials.password, firstLine(redis.password_file));
  }
  connection.database = url.database;
  connection.wait_replicas = redis.wait_replicas;
  if (redis.tls || url.tls) {
    NIMBUS_TRY(connection.tls, redis::makeTlsContext());
  }
  NIMBUS_TRY(auto store, store::redis::RedisStore::open(std::move(options)));
  addMetrics(metrics, *store);
  return std::unique_ptr<store::Store>(std::move(store));
}

}  // namespace

Result<std::unique_ptr<store::Store>> openStore(const Config& config, const Clock& clock,
                                                Metrics& metrics) {
  return usesRedis(config) ? openRedis(config, metrics) : openSqlite(config, clock, metrics);
}

}  // namespace nimbus::server
