#include "bare.h"

#include "base/assert.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>
#include <vector>

namespace nimbus::bench {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void execute(sqlite3* db, const char* sql) {
  NIMBUS_ASSERT(sqlite3_exec(db, sql, nullptr, nullptr, nullptr) == SQLITE_OK, sqlite3_errmsg(db));
}

}  // namespace

double bareUpsertsPerSecond(const std::filesystem::path& directory, int per_transaction,
                            double seconds) {
  const auto path = directory / "bare.db";
  sqlite3* db = nullptr;
  NIMBUS_ASSERT(sqlite3_open(path.c_str(), &db) == SQLITE_OK, "the directory is writable");
  execute(db, "PRAGMA journal_mode=WAL");
  execute(db, "PRAGMA synchronous=FULL");
  execute(db, "CREATE TABLE IF NOT EXISTS t(k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID");
  sqlite3_stmt* upsert = nullptr;
  sqlite3_prepare_v2(db, "INSERT INTO t VALUES(?1, ?2) ON CONFLICT DO UPDATE SET v=?2", -1, &upsert,
                     nullptr);
  std::mt19937 random(7);
  const std::string value(100, 'x');
  long done = 0;
  const auto start = Clock::now();
  while (secondsSince(start) < seconds) {
    execute(db, "BEGIN IMMEDIATE");
    for (int i = 0; i < per_transaction; ++i) {
      const std::string key = "session:bench:" + std::to_string(random() % 1000);
      sqlite3_bind_blob(upsert, 1, key.data(), static_cast<int>(key.size()), SQLITE_STATIC);
      sqlite3_bind_blob(upsert, 2, value.data(), static_cast<int>(value.size()), SQLITE_STATIC);
      NIMBUS_ASSERT(sqlite3_step(upsert) == SQLITE_DONE, sqlite3_errmsg(db));
      sqlite3_reset(upsert);
    }
    execute(db, "COMMIT");
    done += per_transaction;
  }
  const double rate = static_cast<double>(done) / secondsSince(start);
  sqlite3_finalize(upsert);
  sqlite3_close(db);
  return rate;
}

double bareFdatasyncMicros(const std::filesystem::path& directory, int rounds) {
  const auto path = directory / "fdatasync.tmp";
  const int file = ::open(path.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
  NIMBUS_ASSERT(file >= 0, "the directory is writable");
  const std::vector<char> block(4096, 'x');
  constexpr int kBlocks = 2048;
  const auto write = [&](int at) {
    const auto wrote = ::pwrite(file, block.data(), block.size(), ::off_t{at} * 4096);
    NIMBUS_ASSERT(wrote == 4096, "the disk has room");
  };
  for (int i = 0; i < kBlocks; ++i) write(i);
  NIMBUS_ASSERT(::fsync(file) == 0, "the disk works");
  std::vector<double> micros;
  for (int i = 0; i < rounds; ++i) {
    const auto start = Clock::now();
    write(i % kBlocks);
    NIMBUS_ASSERT(::fdatasync(file) == 0, "the disk works");
    micros.push_back(secondsSince(start) * 1e6);
  }
  ::close(file);
  ::unlink(path.c_str());
  std::nth_element(micros.begin(), micros.begin() + rounds / 2, micros.end());
  return micros[static_cast<std::size_t>(rounds) / 2];
}

}  // namespace nimbus::bench
