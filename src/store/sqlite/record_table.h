#pragma once
// Records, as rows of the `record` table: the half of the store that every commit goes through.

#include "base/result.h"
#include "store/batch.h"
#include "store/query.h"
#include "store/rules.h"
#include "store/sqlite/database.h"
#include "store/sqlite/journal.h"
#include "store/sqlite/known_records.h"
#include "store/sqlite/met.h"

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store::sqlite {

// A record as it was before the batch.
struct RecordBefore {
  bool present = false;  // there is a row; it may have expired
  bool live = false;
  Version version = 0;
  std::uint64_t size = 0;
  std::optional<Timestamp> expires_at;
  std::optional<Timestamp> sweep_at;
  std::string value;  // only if asked for

  Version currentVersion() const { return live ? version : 0; }
  bool meets(const std::optional<Version>& expected) const {
    return !expected || *expected == currentVersion();
  }
};

class RecordTable {
 public:
  struct Options {
    Millis sweep_grain{};  // see Writer::Options
    Journal::Options journal;
  };
  RecordTable(Connection& connection, Options options, DeferredPartitions& deferred);
  RecordTable(const RecordTable&) = delete;
  RecordTable& operator=(const RecordTable&) = delete;

  // ---- a transaction, which many batches share

  Result<> beginTransaction();
  // Writes what batches have left to the end.
  Result<> finishTransaction();
  void committed() { journal_.committed(); }
  // What the table remembers of its rows may be wrong: another process has written, or a
  // transaction was given up.
  void forgetAll();

  // Puts the deferred rows of the partition, or of all, into their table, for those who read it.
  Result<> settle(std::string_view partition) { return journal_.settle(partition); }
  Result<> settleAll() { return journal_.settleAll(); }
  bool hasDeferred() const { return journal_.hasAny(); }

  // ---- a batch

  // Whether the rows of a batch may be deferred (see journal.h). Only records may change then, and
  // only by write().
  enum class Way : std::uint8_t { Deferrable, Direct };
  static constexpr std::size_t kMaxDeferredValue = 2048;

  // Starts a batch. `partition` must outlive it.
  Result<> begin(std::string_view partition, Timestamp now, Way way);

  // Keeps a text that is needed until the transaction is finished.
  std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }

  // The record before the batch.
  Result<RecordBefore> load(std::string_view space, std::string_view key, Values values);
  // The record as an operation finds it: gone if the batch has emptied its space.
  Result<RecordBefore> loadForChange(std::string_view space, std::string_view key, Values values);
  // Notes that the batch empties the space: what follows in the batch finds nothing in it.
  Result<> loadCleared(const op::EraseSpace& erase);

  // Conflict if the record cannot take this version. `before` as found by the operation.
  Result<> checkVersion(std::string_view space, const RecordBefore& before,
                        const std::optional<Version>& version);

  // How the batch would change a space, told operation by operation before the first write.
  // `after`: what the record will be; absent = removed.
  struct After {
    std::uint64_t size = 0;
    std::optional<Timestamp> expires_at;
  };
  void plan(std::string_view space, const RecordBefore& before, const std::optional<After>& after);
  Result<> checkWithin(const require::SpaceWithin& limit);

  // Writes. `before` as loaded. `version`: absent = the next. What is given must live until the
  // transaction is finished.
  Result<RecordWritten> write(std::string_view space, std::string_view key,
                              const RecordBefore& before, std::string_view value,
                              const std::optional<Timestamp>& expires_at,
                              const std::optional<Version>& version);
  Result<RecordWritten> touch(const op::Touch& touch, const RecordBefore& before);
  // `last`: see op::Erase.
  Result<Removed> erase(std::string_view space, std::string_view key, const RecordBefore& before,
                        Version last);
  Result<Removed> clear(std::string_view space);

  // Writes the headers of the spaces that changed. The last step of a batch.
  Result<> finish();

  Result<> dropPartition(std::string_view partition);

  // Removes up to `limit` expired records of any partition. The number removed.
  Result<std::uint64_t> sweep(Timestamp now, std::uint64_t limit);

 private:
  // Counts, of the rows that are there or of the live ones.
  struct Totals {
    std::int64_t records = 0;
    std::int64_t bytes = 0;

    void add(std::int64_t more_records, std::int64_t more_bytes) {
      records += more_records;
      bytes += more_bytes;
    }
  };

  // A row that can be swept.
  struct Expired {
    std::string partition;
    std::string space;
    std::string key;
    RecordBefore before;
  };

  // What this batch knows of one space.
  struct Space {
    std::string_view name;
    bool header_loaded = false;
    bool header_changed = false;
    Version floor = 0;
    Totals stored;   // by the header: all rows, expired ones too
    Totals planned;  // change of `stored` by the whole batch
    Totals planned_live;
    // Set if the batch empties the space.
    bool cleared = false;
    Totals cleared_live;
    Version cleared_floor = 0;  // after that
  };

  Space& space(std::string_view name) { return *spaces_.find(name).thing; }
  std::optional<Timestamp> sweepAt(const std::optional<Timestamp>& expires_at) const;
  Result<> moveExpiry(std::string_view space, std::string_view key,
                      const std::optional<Timestamp>& from, const std::optional<Timestamp>& to);
  Result<> loadHeader(Space& space);
  Result<> saveHeader(const Space& space);
  void noteLoaded(std::string_view space, std::string_view key, const RecordBefore& before);

  // Rows that are written more than once in a transaction reach the database once, at its end.
  struct UnwrittenRow {
    RecordRow row;
    Way way = Way::Direct;
  };
  Result<> flush();
  Result<> put(const RecordRow& row);
  // Now, or with the next flush() if the row is known, so that nobody looks for it in the database.
  Result<> putLater(const RecordRow& row, Unwritten* place);
  // All that is known of the partition's rows is in the table.
  Result<> settleCurrent();
  // The same as far as rows matter that are not among the known.
  Result<> settleUnknown();
  Result<> settleExpired(Timestamp now, std::uint64_t limit);
  Result<std::vector<Expired>> findExpired(Timestamp now, std::uint64_t limit);
  RecordBefore beforeOf(const KnownRecord& known) const;
  Result<Totals> liveTotals(std::string_view space);
  Result<> changeTotals(Space& space, std::int64_t records, std::int64_t bytes);
  static void raiseFloor(Space& space, Version floor);  // the header is loaded

  const Millis sweep_grain_;
  Text partition_;
  Timestamp now_;
  Met<Space> spaces_;
  KnownRecords known_;
  std::vector<UnwrittenRow> unwritten_;
  std::uint64_t flushes_ = 1;
  std::uint64_t transactions_ = 0;
  Way way_ = Way::Direct;  // of the batch
  std::deque<std::string> kept_;

  Statement load_;
  Statement load_with_value_;
  Statement load_header_;
  Statement live_totals_;
  Statement highest_version_;
  Statement put_;
  Statement touch_;
  Statement erase_;
  Statement clear_;
  Statement drop_;
  Statement add_expiry_;
  Statement remove_expiry_;
  Statement clear_expiries_;
  Statement drop_expiries_;
  Statement expired_;
  Statement expired_partitions_;
  Journal journal_;
};

}  // namespace nimbus::store::sqlite
