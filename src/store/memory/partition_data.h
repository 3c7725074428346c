#pragma once
// What the memory backend keeps of one partition, and the five things done with it.
//
// A commit is check() and then apply(): check() answers for every refusal that batch.h names and
// changes nothing, so apply() has nothing left to refuse and nothing to undo.

#include "base/clock.h"
#include "base/result.h"
#include "store/batch.h"
#include "store/query.h"
#include "store/types.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace nimbus::store::memory {

struct StoredRecord {
  std::string value;
  Version version = 0;
  std::optional<Timestamp> expires_at;
  Timestamp updated_at;
};

// Expired records stay until they are written over, erased or swept; nothing but versions shows it.
struct Space {
  std::map<std::string, StoredRecord> records;
  Version floor = 0;  // the highest version ever removed, or handed out and never stored

  const StoredRecord* findLive(const std::string& key, Timestamp now) const;
  Version liveVersion(const std::string& key, Timestamp now) const;  // 0 = absent
  Version highestVersion() const;                                    // of all that is or was here
  Usage usage(Timestamp now) const;
};

struct Log {
  Seq last_seq = 0;
  std::uint64_t revision = 0;
  std::map<Seq, Entry> entries;
  std::map<std::string, Seq> by_id;
  std::set<std::tuple<std::string, std::string, Seq>> index;  // (index, term, seq)

  const Entry* find(const std::string& id) const;
  LogInfo info() const { return {last_seq, entries.size(), revision}; }
};

struct LeaseState {
  std::uint64_t epoch = 0;     // of the last grant; outlives the lease, so that it only grows
  std::optional<Lease> lease;  // absent = released
};

struct Queue {
  using Place = std::pair<Timestamp, Seq>;  // due time (Scheduled only, else the epoch), position

  Seq last_position = 0;  // places are given out once
  std::map<std::string, QueueItem> items;
  std::array<std::map<Place, std::string>, 3> parts;  // by QueuePart: who is where

  const QueueItem* find(const std::string& id) const;
  const QueueItem* find(const std::string& id, QueuePart part) const;
  const std::map<Place, std::string>& part(QueuePart which) const;
  std::map<Place, std::string>& part(QueuePart which);
};

struct PartitionData {
  std::map<std::string, Space> spaces;
  std::map<std::string, Log> logs;
  std::map<std::string, LeaseState> leases;
  std::map<std::string, Queue> queues;
  std::map<std::string, std::int64_t> limiters;  // see GcraStep

  // Nothing is kept, not even a counter.
  bool empty() const;
};

// The value under the key, or one that was never written to.
template <typename T>
const T& orEmpty(const std::map<std::string, T>& map, const std::string& key) {
  static const T kEmpty{};
  const auto found = map.find(key);
  return found != map.end() ? found->second : kEmpty;
}

// The first refusal: fence, then conditions in order, then operations in order. The batch is valid.
Result<> check(const PartitionData& data, const std::optional<Fence>& fence, const Batch& batch,
               Timestamp now);

// The batch was checked, against this data and at this time.
Applied apply(PartitionData& data, const Batch& batch, Timestamp now);

// The query has been checked.
Answer answer(const PartitionData& data, const Query& query, Timestamp now);

// Removes expired records and full limiters; how many.
std::uint64_t sweep(PartitionData& data, Timestamp now);

}  // namespace nimbus::store::memory
