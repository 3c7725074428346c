#pragma once
// Logs: the tables `log`, `entry` and `term`.

#include "base/result.h"
#include "store/batch.h"
#include "store/sqlite/database.h"
#include "store/sqlite/met.h"
#include "store/types.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store::sqlite {

// An entry as it was before the batch.
struct EntryBefore {
  bool present = false;
  Seq seq = 0;
  Version version = 0;
  std::string fingerprint;
  std::string terms;  // packed
};

// Seqs are unsigned in the port and signed in SQLite; "to the end" must not become -1.
std::int64_t clamped(Seq seq);

std::string packTerms(const std::vector<Term>& terms);
std::vector<Term> unpackTerms(std::string_view packed);

class LogTable {
 public:
  explicit LogTable(Connection& connection);

  // Starts a batch. `partition` must outlive it.
  void begin(std::string_view partition);

  Result<LogInfo> info(std::string_view log_name);
  // Absent if the batch removes it first.
  Result<EntryBefore> load(std::string_view log_name, std::string_view id);

  // Notes what the batch removes: what follows in the batch does not find it.
  Result<> plan(const op::RemoveRange& op);
  Result<> plan(const op::RemoveTerm& op);

  Result<Appended> append(const op::Append& op, const EntryBefore& before);
  Result<Appended> amend(const op::Amend& op, const EntryBefore& before);
  Result<Removed> remove(const op::Remove& op, const EntryBefore& before);
  Result<Removed> removeRange(const op::RemoveRange& op);
  Result<Removed> removeTerm(const op::RemoveTerm& op);
  Result<Removed> drop(std::string_view log_name);

  // Writes the counters of the logs that changed. The last step of a batch.
  Result<> finish();

  Result<> dropPartition(std::string_view partition);

 private:
  // What this batch knows of one log.
  struct Log {
    std::string_view name;
    std::int64_t id = 0;  // 0 = no row yet
    LogInfo info;
    bool changed = false;
    // What the batch removes.
    std::vector<const op::RemoveRange*> planned_ranges;
    std::vector<const op::RemoveTerm*> planned_terms;

    bool isPlannedToGo(const EntryBefore& entry) const;
  };

  Result<Log*> log(std::string_view name);
  Result<> create(Log& log);
  Result<> addTerms(const Log& log, Seq seq, const std::vector<Term>& terms);
  Result<> removeTerms(const Log& log, Seq seq, std::string_view packed);
  struct Victim {
    Seq seq = 0;
    std::string terms;
  };
  Result<Removed> removeAll(Log& log, const std::vector<Victim>& victims);
  static Result<std::vector<Victim>> collect(Statement::Rows rows);

  Text partition_;
  Met<Log> logs_;

  Statement load_log_;
  Statement create_log_;
  Statement save_log_;
  Statement delete_log_;
  Statement logs_of_partition_;
  Statement load_entry_;
  Statement insert_entry_;
  Statement update_entry_;
  Statement delete_entry_;
  Statement entries_in_range_;
  Statement entries_by_term_;
  Statement insert_term_;
  Statement delete_term_;
  Statement delete_entries_;
  Statement delete_terms_;
};

}  // namespace nimbus::store::sqlite
