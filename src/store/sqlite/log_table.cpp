#include "store/sqlite/log_table.h"

#include "store/sqlite/bytes.h"

#include <algorithm>
#include <limits>

namespace nimbus::store::sqlite {

std::int64_t clamped(Seq seq) {
  return static_cast<std::int64_t>(
      std::min<Seq>(seq, static_cast<Seq>(std::numeric_limits<std::int64_t>::max())));
}

std::string packTerms(const std::vector<Term>& terms) {
  std::string packed;
  for (const Term& term : terms) {
    appendString(packed, term.index);
    appendString(packed, term.value);
  }
  return packed;
}

std::vector<Term> unpackTerms(std::string_view packed) {
  std::vector<Term> terms;
  for (Bytes bytes(packed); !bytes.empty();) {
    Term term;
    term.index = bytes.takeString();
    term.value = bytes.takeString();
    terms.push_back(std::move(term));
  }
  return terms;
}

LogTable::LogTable(Connection& connection)
    : load_log_(connection,
                "SELECT id, last_seq, entries, revision FROM log WHERE partition=?1 AND name=?2"),
      create_log_(connection,
                  "INSERT INTO log(partition, name, last_seq, entries, revision)"
                  " VALUES(?1, ?2, 0, 0, 0) RETURNING id"),
      save_log_(connection, "UPDATE log SET last_seq=?2, entries=?3, revision=?4 WHERE id=?1"),
      delete_log_(connection, "DELETE FROM log WHERE id=?1"),
      logs_of_partition_(connection, "SELECT id FROM log WHERE partition=?1"),
      load_entry_(connection,
                  "SELECT seq, version, fingerprint, terms FROM entry WHERE log=?1 AND id=?2"),
      insert_entry_(connection,
                    "INSERT INTO entry(log, seq, id, version, fingerprint, terms, value)"
                    " VALUES(?1, ?2, ?3, 1, ?4, ?5, ?6)"),
      update_entry_(connection,
                    "UPDATE entry SET version=?3, terms=?4, value=?5 WHERE log=?1 AND seq=?2"),
      delete_entry_(connection, "DELETE FROM entry WHERE log=?1 AND seq=?2"),
      entries_in_range_(connection,
                        "SELECT seq, terms FROM entry WHERE log=?1 AND seq>=?2 AND seq<=?3"),
      entries_by_term_(connection,
                       "SELECT entry.seq, entry.terms FROM term JOIN entry"
                       " ON entry.log=term.log AND entry.seq=term.seq"
                       " WHERE term.log=?1 AND term.name=?2 AND term.value=?3"),
      insert_term_(connection,
                   "INSERT OR IGNORE INTO term(log, name, value, seq) VALUES(?1, ?2, ?3, ?4)"),
      delete_term_(connection, "DELETE FROM term WHERE log=?1 AND name=?2 AND value=?3 AND seq=?4"),
      delete_entries_(connection, "DELETE FROM entry WHERE log=?1"),
      delete_terms_(connection, "DELETE FROM term WHERE log=?1") {}

void LogTable::begin(std::string_view partition) {
  partition_ = Text{partition};
  logs_.forgetAll();
}

Result<LogTable::Log*> LogTable::log(std::string_view name) {
  const auto [log, first_time] = logs_.find(name);
  if (!first_time) return log;
  auto rows = load_log_.query(partition_, name);
  NIMBUS_TRY(const bool exists, rows.next());
  if (exists) {
    log->id = rows.integer(0);
    log->info = {rows.unsignedInteger(1), rows.unsignedInteger(2), rows.unsignedInteger(3)};
  }
  return log;
}

Result<LogInfo> LogTable::info(std::string_view log_name) {
  NIMBUS_TRY(const Log* log, this->log(log_name));
  return log->info;
}

Result<EntryBefore> LogTable::load(std::string_view log_name, std::string_view id) {
  EntryBefore before;
  NIMBUS_TRY(const Log* log, this->log(log_name));
  if (log->id == 0) return before;
  auto rows = load_entry_.query(log->id, id);
  NIMBUS_TRY(before.present, rows.next());
  if (!before.present) return before;
  before.seq = rows.unsignedInteger(0);
  before.version = rows.unsignedInteger(1);
  before.fingerprint = rows.bytes(2);
  before.terms = rows.bytes(3);
  if (log->isPlannedToGo(before)) return EntryBefore();
  return before;
}

bool LogTable::Log::isPlannedToGo(const EntryBefore& entry) const {
  for (const op::RemoveRange* range : planned_ranges) {
    if (range->from <= entry.seq && entry.seq <= range->to) return true;
  }
  if (planned_terms.empty()) return false;
  const std::vector<Term> terms = unpackTerms(entry.terms);
  return std::any_of(planned_terms.begin(), planned_terms.end(), [&](const op::RemoveTerm* o) {
    return std::find(terms.begin(), terms.end(), o->term) != terms.end();
  });
}

Result<> LogTable::plan(const op::RemoveRange& op) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  log->planned_ranges.push_back(&op);
  return {};
}

Result<> LogTable::plan(const op::RemoveTerm& op) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  log->planned_terms.push_back(&op);
  return {};
}

Result<> LogTable::create(Log& log) {
  if (log.id != 0) return {};
  auto rows = create_log_.query(partition_, log.name);
  NIMBUS_CHECK(rows.next());
  log.id = rows.integer(0);
  // The insert is complete only when the statement has been stepped to its end.
  NIMBUS_CHECK(rows.next());
  return {};
}

Result<> LogTable::addTerms(const Log& log, Seq seq, const std::vector<Term>& terms) {
  for (const Term& term : terms) {
    NIMBUS_CHECK(insert_term_.run(log.id, term.index, term.value, seq));
  }
  return {};
}

Result<> LogTable::removeTerms(const Log& log, Seq seq, std::string_view packed) {
  for (Bytes bytes(packed); !bytes.empty();) {
    const std::string_view index = bytes.takeString();
    const std::string_view value = bytes.takeString();
    NIMBUS_CHECK(delete_term_.run(log.id, index, value, seq));
  }
  return {};
}

Result<Appended> LogTable::append(const op::Append& op, const EntryBefore& before) {
  if (before.present) return Appended{before.seq, 1, true};  // as the first time
  NIMBUS_TRY(Log* const log, this->log(op.log));
  NIMBUS_CHECK(create(*log));
  const Seq seq = ++log->info.last_seq;
  ++log->info.entries;
  ++log->info.revision;
  log->changed = true;
  NIMBUS_CHECK(
      insert_entry_.run(log->id, seq, op.id, op.fingerprint, packTerms(op.terms), op.value));
  NIMBUS_CHECK(addTerms(*log, seq, op.terms));
  return Appended{seq, 1, false};
}

Result<Appended> LogTable::amend(const op::Amend& op, const EntryBefore& before) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  ++log->info.revision;
  log->changed = true;
  const Version version = before.version + 1;
  NIMBUS_CHECK(removeTerms(*log, before.seq, before.terms));
  NIMBUS_CHECK(update_entry_.run(log->id, before.seq, version, packTerms(op.terms), op.value));
  NIMBUS_CHECK(addTerms(*log, before.seq, op.terms));
  return Appended{before.seq, version, false};
}

Result<Removed> LogTable::remove(const op::Remove& op, const EntryBefore& before) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  return removeAll(*log, {Victim{before.seq, before.terms}});
}

Result<Removed> LogTable::removeRange(const op::RemoveRange& op) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  NIMBUS_TRY(const auto victims,
             collect(entries_in_range_.query(log->id, clamped(op.from), clamped(op.to))));
  return removeAll(*log, victims);
}

Result<Removed> LogTable::removeTerm(const op::RemoveTerm& op) {
  NIMBUS_TRY(Log* const log, this->log(op.log));
  NIMBUS_TRY(const auto victims,
             collect(entries_by_term_.query(log->id, op.term.index, op.term.value)));
  return removeAll(*log, victims);
}

Result<std::vector<LogTable::Victim>> LogTable::collect(Statement::Rows rows) {
  std::vector<Victim> victims;
  while (true) {
    NIMBUS_TRY(const bool more, rows.next());
    if (!more) return victims;
    victims.push_back({rows.unsignedInteger(0), std::string(rows.bytes(1))});
  }
}

Result<Removed> LogTable::removeAll(Log& log, const std::vector<Victim>& victims) {
  for (const Victim& victim : victims) {
    NIMBUS_CHECK(removeTerms(log, victim.seq, victim.terms));
    NIMBUS_CHECK(delete_entry_.run(log.id, victim.seq));
  }
  if (!victims.empty()) {
    log.info.entries -= victims.size();
    ++log.info.revision;
    log.changed = true;
  }
  return Removed{victims.size()};
}

Result<Removed> LogTable::drop(std::string_view log_name) {
  NIMBUS_TRY(Log* const log, this->log(log_name));
  NIMBUS_TRY(const std::uint64_t count, delete_entries_.run(log->id));
  NIMBUS_CHECK(delete_terms_.run(log->id));
  NIMBUS_CHECK(delete_log_.run(log->id));
  log->id = 0;
  log->info = {};
  log->changed = false;
  return Removed{count};
}

Result<> LogTable::finish() {
  for (const Log& log : logs_) {
    if (!log.changed) continue;
    NIMBUS_CHECK(save_log_.run(log.id, log.info.last_seq, log.info.entries, log.info.revision));
  }
  return {};
}

Result<> LogTable::dropPartition(std::string_view partition) {
  std::vector<std::int64_t> ids;
  {
    auto rows = logs_of_partition_.query(Text{partition});
    while (true) {
      NIMBUS_TRY(const bool more, rows.next());
      if (!more) break;
      ids.push_back(rows.integer(0));
    }
  }
  for (const std::int64_t id : ids) {
    NIMBUS_CHECK(delete_entries_.run(id));
    NIMBUS_CHECK(delete_terms_.run(id));
    NIMBUS_CHECK(delete_log_.run(id));
  }
  return {};
}

}  // namespace nimbus::store::sqlite
