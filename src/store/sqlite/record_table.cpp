#include "store/sqlite/record_table.h"

#include "store/sqlite/bytes.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace nimbus::store::sqlite {
namespace {

std::int64_t asSigned(std::uint64_t number) {
  return static_cast<std::int64_t>(number);
}

}  // namespace

RecordTable::RecordTable(Connection& connection, Options options, DeferredPartitions& deferred)
    : sweep_grain_(options.sweep_grain),
      load_(connection,
            "SELECT version, length(value), expires_at, sweep_at FROM record"
            " WHERE partition=?1 AND space=?2 AND key=?3"),
      load_with_value_(connection,
                       "SELECT version, length(value), expires_at, sweep_at, value FROM record"
                       " WHERE partition=?1 AND space=?2 AND key=?3"),
      load_header_(connection,
                   "SELECT version, value FROM record"
                   " WHERE partition=?1 AND space=?2 AND key=x''"),
      live_totals_(connection,
                   "SELECT count(*), coalesce(sum(length(value)), 0) FROM record"
                   " WHERE partition=?1 AND space=?2 AND key>x''"
                   " AND (expires_at IS NULL OR expires_at>?3)"),
      highest_version_(connection,
                       "SELECT coalesce(max(version), 0) FROM record"
                       " WHERE partition=?1 AND space=?2 AND key>x''"),
      put_(connection,
           "INSERT OR REPLACE INTO record(partition, space, key, version, expires_at, updated_at,"
           " sweep_at, value) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"),
      touch_(connection,
             "UPDATE record SET version=?4, expires_at=?5, sweep_at=?6"
             " WHERE partition=?1 AND space=?2 AND key=?3"),
      erase_(connection, "DELETE FROM record WHERE partition=?1 AND space=?2 AND key=?3"),
      clear_(connection, "DELETE FROM record WHERE partition=?1 AND space=?2 AND key>x''"),
      drop_(connection, "DELETE FROM record WHERE partition=?1"),
      add_expiry_(connection,
                  "INSERT INTO expiry(sweep_at, partition, space, key) VALUES(?1, ?2, ?3, ?4)"),
      remove_expiry_(
          connection,
          "DELETE FROM expiry WHERE sweep_at=?1 AND partition=?2 AND space=?3 AND key=?4"),
      clear_expiries_(connection,
                      "DELETE FROM expiry WHERE (sweep_at, partition, space, key) IN"
                      " (SELECT sweep_at, partition, space, key FROM record"
                      " WHERE partition=?1 AND space=?2 AND sweep_at IS NOT NULL)"),
      drop_expiries_(connection,
                     "DELETE FROM expiry WHERE (sweep_at, partition, space, key) IN"
                     " (SELECT sweep_at, partition, space, key FROM record"
                     " WHERE partition=?1 AND sweep_at IS NOT NULL)"),
      expired_(connection,
               "SELECT partition, space, key, record.version, length(record.value),"
               " expiry.sweep_at FROM expiry JOIN record USING(partition, space, key)"
               " WHERE expiry.sweep_at<=?1 ORDER BY expiry.sweep_at LIMIT ?2"),
      expired_partitions_(connection,
                          "SELECT partition FROM expiry WHERE sweep_at<=?1"
                          " ORDER BY sweep_at LIMIT ?2"),
      journal_(connection, options.journal, deferred,
               [this](const RecordRow& row) { return put(row); }) {}

std::optional<Timestamp> RecordTable::sweepAt(const std::optional<Timestamp>& expires_at) const {
  if (!expires_at) return std::nullopt;
  const Millis::rep grain = sweep_grain_.count();
  const Millis::rep at = expires_at->time_since_epoch().count();
  return Timestamp(Millis((at + grain - 1) / grain * grain));
}

Result<> RecordTable::beginTransaction() {
  ++transactions_;
  return journal_.begin();
}

Result<> RecordTable::finishTransaction() {
  NIMBUS_CHECK(flush());
  kept_.clear();
  return journal_.write();
}

Result<> RecordTable::begin(std::string_view partition, Timestamp now, Way way) {
  partition_ = Text{partition};
  now_ = now;
  spaces_.forgetAll();
  known_.begin(partition);
  // Behind a direct batch of the same transaction stands nothing deferred of its partition: a row
  // that both write would show half of the later one.
  const bool deferred =
      way == Way::Deferrable && journal_.isOpen() && known_.directTransaction() != transactions_;
  way_ = deferred ? Way::Deferrable : Way::Direct;
  if (deferred) return {};
  known_.directTransaction() = transactions_;
  return settleCurrent();
}

Result<> RecordTable::settleCurrent() {
  if (known_.deferredFlush() == flushes_) NIMBUS_CHECK(flush());
  return journal_.settle(partition_.bytes);
}

Result<> RecordTable::settleUnknown() {
  return journal_.settle(partition_.bytes);
}

Result<> RecordTable::loadHeader(Space& space) {
  if (space.header_loaded) return {};
  space.header_loaded = true;
  if (const KnownHeader* const known = known_.findHeader(space.name)) {
    space.floor = known->floor;
    space.stored = {known->records, known->bytes};
    return {};
  }
  NIMBUS_CHECK(settleUnknown());
  auto rows = load_header_.query(partition_, space.name);
  NIMBUS_TRY(const bool exists, rows.next());
  if (!exists) return {};
  space.floor = rows.unsignedInteger(0);
  Bytes totals(rows.bytes(1));
  space.stored.records = asSigned(totals.takeNumber());
  space.stored.bytes = asSigned(totals.takeNumber());
  if (KnownHeader* const known = known_.placeHeader(space.name)) {
    known->floor = space.floor;
    known->records = space.stored.records;
    known->bytes = space.stored.bytes;
  }
  return {};
}

Result<> RecordTable::saveHeader(const Space& space) {
  std::string totals;
  appendNumber(totals, static_cast<std::uint64_t>(space.stored.records));
  appendNumber(totals, static_cast<std::uint64_t>(space.stored.bytes));
  RecordRow row;
  row.partition = partition_.bytes;
  row.space = space.name;
  row.version = space.floor;
  row.value = keep(std::move(totals));
  KnownHeader* const known = known_.placeHeader(space.name);
  if (known == nullptr) return putLater(row, nullptr);
  known->floor = space.floor;
  known->records = space.stored.records;
  known->bytes = space.stored.bytes;
  return putLater(row, &known->unwritten);
}

Result<> RecordTable::put(const RecordRow& row) {
  NIMBUS_CHECK(put_.run(Text{row.partition}, row.space, row.key, row.version, row.expires_at,
                        row.updated_at, row.sweep_at, row.value));
  return {};
}

Result<> RecordTable::putLater(const RecordRow& row, Unwritten* place) {
  if (place == nullptr) {
    if (way_ == Way::Direct) return put(row);
    journal_.add(row);
    return {};
  }
  if (way_ == Way::Deferrable) known_.deferredFlush() = flushes_;
  if (place->flush == flushes_) {
    unwritten_[place->place] = {row, way_};
  } else {
    *place = {flushes_, unwritten_.size()};
    unwritten_.push_back({row, way_});
  }
  return {};
}

Result<> RecordTable::flush() {
  for (const auto& [row, way] : unwritten_) {
    if (way == Way::Direct) {
      NIMBUS_CHECK(put(row));
    } else {
      journal_.add(row);
    }
  }
  unwritten_.clear();
  ++flushes_;
  return {};
}

void RecordTable::forgetAll() {
  journal_.forgetAll();
  known_.forgetAll();
  unwritten_.clear();
  kept_.clear();
  ++flushes_;
}

Result<RecordTable::Totals> RecordTable::liveTotals(std::string_view space) {
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(settleCurrent());
  auto rows = live_totals_.query(partition_, space, now_);
  NIMBUS_CHECK(rows.next());
  return Totals{rows.integer(0), rows.integer(1)};
}

Result<RecordBefore> RecordTable::loadForChange(std::string_view space, std::string_view key,
                                                Values values) {
  if (this->space(space).cleared) return RecordBefore();
  return load(space, key, values);
}

RecordBefore RecordTable::beforeOf(const KnownRecord& known) const {
  RecordBefore before;
  before.present = true;
  before.version = known.version;
  before.size = known.size;
  before.expires_at = known.expires_at;
  before.sweep_at = known.sweep_at;
  before.live = isLive(before.expires_at, now_);
  return before;
}

Result<RecordBefore> RecordTable::load(std::string_view space, std::string_view key,
                                       Values values) {
  if (values == Values::Omit) {
    if (const KnownRecord* const known = known_.find(space, key)) return beforeOf(*known);
  }
  RecordBefore before;
  if (values == Values::Include) NIMBUS_CHECK(flush());
  NIMBUS_CHECK(settleUnknown());
  Statement& statement = values == Values::Include ? load_with_value_ : load_;
  auto rows = statement.query(partition_, space, key);
  NIMBUS_TRY(before.present, rows.next());
  if (!before.present) return before;
  before.version = rows.unsignedInteger(0);
  before.size = rows.unsignedInteger(1);
  before.expires_at = rows.optionalTime(2);
  before.sweep_at = rows.optionalTime(3);
  before.live = isLive(before.expires_at, now_);
  if (values == Values::Include) before.value = rows.bytes(4);
  noteLoaded(space, key, before);
  return before;
}

void RecordTable::noteLoaded(std::string_view space, std::string_view key,
                             const RecordBefore& before) {
  KnownRecord* const known = known_.place(space, key);
  if (known == nullptr) return;
  known->version = before.version;
  known->size = before.size;
  known->expires_at = before.expires_at;
  known->sweep_at = before.sweep_at;
}

Result<> RecordTable::loadCleared(const op::EraseSpace& erase) {
  Space& space = this->space(erase.space);
  NIMBUS_CHECK(loadHeader(space));
  NIMBUS_TRY(space.cleared_live, liveTotals(erase.space));
  NIMBUS_CHECK(flush());
  auto rows = highest_version_.query(partition_, std::string_view(erase.space));
  NIMBUS_CHECK(rows.next());
  space.cleared_floor = std::max({space.floor, rows.unsignedInteger(0), erase.last});
  space.cleared = true;
  space.planned.add(-space.stored.records, -space.stored.bytes);
  space.planned_live.add(-space.cleared_live.records, -space.cleared_live.bytes);
  return {};
}

Result<> RecordTable::checkVersion(std::string_view space_name, const RecordBefore& before,
                                   const std::optional<Version>& version) {
  if (!version) return {};
  Version highest = before.version;
  if (!before.present) {
    Space& space = this->space(space_name);
    NIMBUS_CHECK(loadHeader(space));
    highest = space.cleared ? space.cleared_floor : space.floor;
  }
  if (*version <= highest) return versionTooLow(*version, highest);
  return {};
}

void RecordTable::plan(std::string_view space_name, const RecordBefore& before,
                       const std::optional<After>& after) {
  Space& space = this->space(space_name);
  const std::int64_t bytes_before = asSigned(before.size);
  if (before.present) space.planned.add(-1, -bytes_before);
  if (before.live) space.planned_live.add(-1, -bytes_before);
  if (!after) return;
  const std::int64_t bytes_after = asSigned(after->size);
  space.planned.add(1, bytes_after);
  if (isLive(after->expires_at, now_)) space.planned_live.add(1, bytes_after);
}

Result<> RecordTable::checkWithin(const require::SpaceWithin& limit) {
  Space& space = this->space(limit.space);
  NIMBUS_CHECK(loadHeader(space));
  const auto fits = [](std::uint64_t most, std::int64_t count) {
    return most == 0 || count <= asSigned(most);
  };
  // The header counts expired rows too: what fits with them fits without.
  if (fits(limit.max_records, space.stored.records + space.planned.records) &&
      fits(limit.max_bytes, space.stored.bytes + space.planned.bytes)) {
    return {};
  }
  NIMBUS_TRY(const Totals live, liveTotals(limit.space));
  const auto before_records = static_cast<std::uint64_t>(live.records);
  const auto before_bytes = static_cast<std::uint64_t>(live.bytes);
  const auto after_records = static_cast<std::uint64_t>(live.records + space.planned_live.records);
  const auto after_bytes = static_cast<std::uint64_t>(live.bytes + space.planned_live.bytes);
  if (exceeds(limit.max_records, before_records, after_records)) {
    return quotaExceeded("records", limit.max_records);
  }
  if (exceeds(limit.max_bytes, before_bytes, after_bytes)) {
    return quotaExceeded("bytes", limit.max_bytes);
  }
  return {};
}

Result<> RecordTable::changeTotals(Space& space, std::int64_t records, std::int64_t bytes) {
  if (records == 0 && bytes == 0) return {};
  NIMBUS_CHECK(loadHeader(space));
  space.stored.add(records, bytes);
  space.header_changed = true;
  return {};
}

void RecordTable::raiseFloor(Space& space, Version floor) {
  if (floor <= space.floor) return;
  space.floor = floor;
  space.header_changed = true;
}

Result<> RecordTable::moveExpiry(std::string_view space, std::string_view key,
                                 const std::optional<Timestamp>& from,
                                 const std::optional<Timestamp>& to) {
  if (from == to) return {};
  if (from) NIMBUS_CHECK(remove_expiry_.run(*from, partition_, space, key));
  if (to) NIMBUS_CHECK(add_expiry_.run(*to, partition_, space, key));
  return {};
}

Result<RecordWritten> RecordTable::write(std::string_view space_name, std::string_view key,
                                         const RecordBefore& before, std::string_view value,
                                         const std::optional<Timestamp>& expires_at,
                                         const std::optional<Version>& version) {
  Space& space = this->space(space_name);
  if (!before.present) NIMBUS_CHECK(loadHeader(space));
  const Version taken = version.value_or((before.present ? before.version : space.floor) + 1);
  const auto sweep_at = sweepAt(expires_at);
  NIMBUS_CHECK(moveExpiry(space_name, key, before.sweep_at, sweep_at));
  const RecordRow row{partition_.bytes, space_name, key, taken, expires_at, now_, sweep_at, value};
  KnownRecord* const known = known_.place(space_name, key);
  if (known != nullptr) {
    known->version = taken;
    known->size = value.size();
    known->expires_at = expires_at;
    known->sweep_at = sweep_at;
  }
  NIMBUS_CHECK(putLater(row, known != nullptr ? &known->unwritten : nullptr));
  const std::int64_t bytes_before = before.present ? asSigned(before.size) : 0;
  NIMBUS_CHECK(changeTotals(space, before.present ? 0 : 1, asSigned(value.size()) - bytes_before));
  return RecordWritten{taken, expires_at};
}

Result<RecordWritten> RecordTable::touch(const op::Touch& touch, const RecordBefore& before) {
  const std::string_view space = touch.space;
  const std::string_view key = touch.key;
  const Version version = touch.version.value_or(before.version + 1);
  const auto sweep_at = sweepAt(touch.expires_at);
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(touch_.run(partition_, space, key, version, touch.expires_at, sweep_at));
  NIMBUS_CHECK(moveExpiry(space, key, before.sweep_at, sweep_at));
  if (KnownRecord* const known = known_.place(space, key)) {
    known->version = version;
    known->size = before.size;
    known->expires_at = touch.expires_at;
    known->sweep_at = sweep_at;
  }
  return RecordWritten{version, touch.expires_at};
}

Result<Removed> RecordTable::erase(std::string_view space_name, std::string_view key,
                                   const RecordBefore& before, Version last) {
  if (!before.present && last == 0) return Removed{0};
  Space& space = this->space(space_name);
  NIMBUS_CHECK(loadHeader(space));
  raiseFloor(space, std::max(before.version, last));
  if (!before.present) return Removed{0};
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(erase_.run(partition_, space_name, key));
  known_.forget(space_name, key);
  NIMBUS_CHECK(moveExpiry(space_name, key, before.sweep_at, std::nullopt));
  NIMBUS_CHECK(changeTotals(space, -1, -asSigned(before.size)));
  return Removed{before.live ? 1U : 0U};
}

Result<Removed> RecordTable::clear(std::string_view space_name) {
  Space& space = this->space(space_name);
  raiseFloor(space, space.cleared_floor);
  if (space.stored.records == 0) return Removed{0};
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(clear_expiries_.run(partition_, space_name));
  NIMBUS_CHECK(clear_.run(partition_, space_name));
  known_.forgetSpace(space_name);
  space.stored = {};
  space.header_changed = true;
  return Removed{static_cast<std::uint64_t>(space.cleared_live.records)};
}

Result<> RecordTable::finish() {
  for (const Space& space : spaces_) {
    if (space.header_changed) NIMBUS_CHECK(saveHeader(space));
  }
  return {};
}

Result<> RecordTable::dropPartition(std::string_view partition) {
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(drop_expiries_.run(Text{partition}));
  NIMBUS_CHECK(drop_.run(Text{partition}));
  known_.forgetPartition(partition);
  return {};
}

Result<> RecordTable::settleExpired(Timestamp now, std::uint64_t limit) {
  auto rows = expired_partitions_.query(now, limit);
  while (true) {
    NIMBUS_TRY(const bool more, rows.next());
    if (!more) return {};
    NIMBUS_CHECK(journal_.settle(rows.bytes(0)));
  }
}

Result<std::vector<RecordTable::Expired>> RecordTable::findExpired(Timestamp now,
                                                                   std::uint64_t limit) {
  std::vector<Expired> found;
  auto rows = expired_.query(now, limit);
  while (true) {
    NIMBUS_TRY(const bool more, rows.next());
    if (!more) return found;
    RecordBefore before;
    before.present = true;
    before.version = rows.unsignedInteger(3);
    before.size = rows.unsignedInteger(4);
    before.sweep_at = rows.time(5);
    found.push_back({std::string(rows.bytes(0)), std::string(rows.bytes(1)),
                     std::string(rows.bytes(2)), std::move(before)});
  }
}

Result<std::uint64_t> RecordTable::sweep(Timestamp now, std::uint64_t limit) {
  NIMBUS_CHECK(flush());
  NIMBUS_CHECK(settleExpired(now, limit));
  NIMBUS_TRY(std::vector<Expired> found, findExpired(now, limit));
  // Neighbours share a header, and rows that expired together are often neighbours.
  std::sort(found.begin(), found.end(), [](const Expired& a, const Expired& b) {
    return std::tie(a.partition, a.space) < std::tie(b.partition, b.space);
  });
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool first = i == 0 || found[i].partition != found[i - 1].partition;
    if (first) NIMBUS_CHECK(begin(found[i].partition, now, Way::Direct));
    NIMBUS_CHECK(erase(found[i].space, found[i].key, found[i].before, 0));
    const bool last = i + 1 == found.size() || found[i].partition != found[i + 1].partition;
    if (last) NIMBUS_CHECK(finish());
  }
  NIMBUS_CHECK(flush());  // the names go with `found`
  return found.size();
}

}  // namespace nimbus::store::sqlite
