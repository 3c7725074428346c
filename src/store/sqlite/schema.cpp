#include "store/sqlite/schema.h"

// Layout, version 2. Names, keys and ids are blobs, partitions and directories text; all compare by
// their bytes. What may be large comes last in its row, so that the rest can be read without it.
// Times are milliseconds since the epoch, NULL where there is none.
//
// record     One row per record, clustered so that a session's rows lie together. The row with the
//            empty key is the header of its space: `version` is the floor (the highest version ever
//            removed, or handed out and never stored), `value` the number of records and of their
//            bytes, 8 bytes each, big-endian.
//            It lies beside the records because most commits change both, and one page is
//            cheaper to write than two. The table has no further index: so writing a record is one
//            search and one change in place.
// expiry     Which records can be swept from when on. `sweep_at`, here and in the record, is the
//            expiry rounded up, so that this does not change with every write.
// journal    Rows of `record` that are not there yet; see journal.h. Version 2.
// lease      A released lease keeps its row, without a holder, for its epoch.
// log        One row per log: its counters, and the number its entries go by.
// entry      `terms`: the entry's index terms, as in log_table.cpp, so that they can be removed.
// term       The index: which entries stand under which term.
// queue      One row per queue: its counters. `next_position` is never given out twice.
// item       `part`: 0 line, 1 scheduled, 2 parked. `due_at` is 0 unless scheduled, so that one
//            index orders all three.
// limiter    See gcra() in rules.h.
// directory  Entries that list what lives in other partitions.

#include <fmt/format.h>

#include <array>

namespace nimbus::store::sqlite {
namespace {

// "Nimb": tells our files from others'.
constexpr std::int64_t kApplicationId = 0x4E696D62;

constexpr const char* kVersion1 = R"sql(
CREATE TABLE record(
  partition TEXT NOT NULL, space BLOB NOT NULL, key BLOB NOT NULL,
  version INTEGER NOT NULL, expires_at INTEGER, updated_at INTEGER NOT NULL, sweep_at INTEGER,
  value BLOB NOT NULL,
  PRIMARY KEY(partition, space, key)) STRICT, WITHOUT ROWID;
CREATE TABLE expiry(
  sweep_at INTEGER NOT NULL, partition TEXT NOT NULL, space BLOB NOT NULL, key BLOB NOT NULL,
  PRIMARY KEY(sweep_at, partition, space, key)) STRICT, WITHOUT ROWID;

CREATE TABLE lease(
  partition TEXT NOT NULL, name BLOB NOT NULL,
  holder BLOB NOT NULL, epoch INTEGER NOT NULL, nonce INTEGER NOT NULL, expires_at INTEGER,
  PRIMARY KEY(partition, name)) STRICT, WITHOUT ROWID;

CREATE TABLE log(
  id INTEGER PRIMARY KEY, partition TEXT NOT NULL, name BLOB NOT NULL,
  last_seq INTEGER NOT NULL, entries INTEGER NOT NULL, revision INTEGER NOT NULL,
  UNIQUE(partition, name)) STRICT;
CREATE TABLE entry(
  log INTEGER NOT NULL, seq INTEGER NOT NULL, id BLOB NOT NULL, version INTEGER NOT NULL,
  fingerprint BLOB NOT NULL, terms BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY(log, seq)) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entry_id ON entry(log, id);
CREATE TABLE term(
  log INTEGER NOT NULL, name BLOB NOT NULL, value BLOB NOT NULL, seq INTEGER NOT NULL,
  PRIMARY KEY(log, name, value, seq)) STRICT, WITHOUT ROWID;

CREATE TABLE queue(
  partition TEXT NOT NULL, name BLOB NOT NULL, next_position INTEGER NOT NULL,
  waiting INTEGER NOT NULL, scheduled INTEGER NOT NULL, parked INTEGER NOT NULL,
  PRIMARY KEY(partition, name)) STRICT, WITHOUT ROWID;
CREATE TABLE item(
  partition TEXT NOT NULL, queue BLOB NOT NULL, id BLOB NOT NULL,
  part INTEGER NOT NULL, due_at INTEGER NOT NULL, position INTEGER NOT NULL,
  not_before INTEGER NOT NULL, attempts INTEGER NOT NULL, reason BLOB NOT NULL,
  payload BLOB NOT NULL,
  PRIMARY KEY(partition, queue, id)) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX item_order ON item(partition, queue, part, due_at, position);

CREATE TABLE limiter(
  partition TEXT NOT NULL, name BLOB NOT NULL, arrival_us INTEGER NOT NULL,
  PRIMARY KEY(partition, name)) STRICT, WITHOUT ROWID;

CREATE TABLE directory(
  name TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,
  PRIMARY KEY(name, key)) STRICT, WITHOUT ROWID;
)sql";

constexpr const char* kVersion2 = R"sql(
CREATE TABLE journal(
  page INTEGER PRIMARY KEY, writer INTEGER NOT NULL, entries BLOB NOT NULL) STRICT;
)sql";

// kMigrations[n] leads from version n to n + 1.
constexpr std::array<const char*, kSchemaVersion> kMigrations = {kVersion1, kVersion2};

Result<> migrate(Connection& connection, std::size_t from) {
  for (std::size_t version = from; version < kMigrations.size(); ++version) {
    NIMBUS_CHECK(connection.execute(kMigrations.at(version)));
  }
  const std::string stamp = fmt::format("PRAGMA application_id={}; PRAGMA user_version={}",
                                        kApplicationId, kSchemaVersion);
  return connection.execute(stamp.c_str());
}

}  // namespace

Result<> prepareSchema(Connection& connection) {
  NIMBUS_TRY(const std::int64_t version, connection.integer("PRAGMA user_version"));
  NIMBUS_TRY(const std::int64_t application, connection.integer("PRAGMA application_id"));
  NIMBUS_TRY(const std::int64_t tables, connection.integer("SELECT count(*) FROM sqlite_schema"));
  const bool fresh = version == 0 && application == 0 && tables == 0;
  if (!fresh && application != kApplicationId) {
    return Error(Code::Unprocessable,
                 "the file is a database of another program; choose another data directory");
  }
  if (version > kSchemaVersion) {
    return Error(Code::Unprocessable,
                 fmt::format("the data was written by a newer nimbus (schema {}, this one knows "
                             "{}); start that version, or restore a backup made before",
                             version, kSchemaVersion));
  }
  if (version == kSchemaVersion) return {};

  NIMBUS_CHECK(connection.execute("BEGIN EXCLUSIVE"));
  if (auto migrated = migrate(connection, static_cast<std::size_t>(version)); !migrated) {
    static_cast<void>(connection.execute("ROLLBACK"));
    return std::move(migrated).error().in("bringing the data up to date");
  }
  return connection.execute("COMMIT");
}

}  // namespace nimbus::store::sqlite
