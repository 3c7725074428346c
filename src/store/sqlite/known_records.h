#pragma once
// What the writer knows of records because it was the last to read or write them, so that a commit
// to a session in use asks the database nothing and only writes.
//
// True as long as nobody else writes: whoever owns this forgets all of it when another process has
// written, and when a transaction was given up. Bounded, and forgets what was not used for long.

#include "base/clock.h"
#include "store/sqlite/journal.h"
#include "store/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nimbus::store::sqlite {

// Where a row that has not been written yet waits for that.
struct Unwritten {
  std::uint64_t flush = 0;  // until this many have been
  std::size_t place = 0;
};

// A row of the record table, without its value.
struct KnownRecord {
  std::string space;
  std::string key;
  Version version = 0;
  std::uint64_t size = 0;
  std::optional<Timestamp> expires_at;
  std::optional<Timestamp> sweep_at;
  Unwritten unwritten;
};

// The header of a space; see schema.cpp.
struct KnownHeader {
  std::string space;
  Version floor = 0;
  std::int64_t records = 0;
  std::int64_t bytes = 0;
  Unwritten unwritten;
};

class KnownRecords {
 public:
  // What follows is about this partition.
  void begin(std::string_view partition);

  // Null: not known. Valid until the next call of anything here.
  const KnownRecord* find(std::string_view space, std::string_view key) const;
  const KnownHeader* findHeader(std::string_view space) const;

  // What is known, to be written down: of one that was not known only the names. Null: there is no
  // room for it. Valid until the next call of anything here.
  KnownRecord* place(std::string_view space, std::string_view key);
  KnownHeader* placeHeader(std::string_view space);

  // When batches of the partition last wrote to the tables directly, and when they last left rows
  // unwritten that are to be deferred; for whoever numbers transactions and flushes.
  std::uint64_t& directTransaction() { return current_->direct_transaction; }
  std::uint64_t& deferredFlush() { return current_->deferred_flush; }

  void forget(std::string_view space, std::string_view key);
  void forgetSpace(std::string_view space);
  void forgetPartition(std::string_view partition);
  void forgetAll();

 private:
  // Sessions in use at a time; more than a transaction can touch, so that what it left unwritten is
  // known. Those with more records than this have the rest read again.
  static constexpr std::size_t kPartitions = 8192;
  static constexpr std::size_t kRecords = 32;

  struct Known {
    std::vector<KnownRecord> records;
    std::vector<KnownHeader> headers;
    std::uint64_t direct_transaction = 0;
    std::uint64_t deferred_flush = 0;
  };
  using Partitions = std::unordered_map<std::string, Known, TransparentHash, std::equal_to<>>;

  // Two generations: what is used moves to the young one, and when that is full the old one goes.
  Partitions young_;
  Partitions old_;
  Known* current_ = nullptr;
};

}  // namespace nimbus::store::sqlite
