#pragma once
// What the store keeps, as it is handed out. The five primitives are explained in store.h.

#include "base/clock.h"

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::store {

// Versions of a record or log entry begin at 1 and only grow. 0 means "there is none".
using Version = std::uint64_t;

// Positions in a log or queue begin at 1. 0 means "before the first".
using Seq = std::uint64_t;

// ---- record

struct Record {
  std::string key;
  std::string value;       // empty when values were not asked for
  std::uint64_t size = 0;  // of the value, in bytes, also when the value was not asked for
  Version version = 0;
  std::optional<Timestamp> expires_at;  // absent = never
  Timestamp updated_at;

  bool operator==(const Record&) const = default;
};

// What a space holds, expired records not counted, and where the versions of new ones begin.
struct Usage {
  std::uint64_t records = 0;
  std::uint64_t bytes = 0;  // of the values
  // The highest version that was ever removed from the space, or has expired: a record that is not
  // there now may have had it. Sweeping does not change it.
  Version floor = 0;

  bool operator==(const Usage&) const = default;
};

// When a written record shall expire.
struct Expiry {
  std::optional<Timestamp> at;  // absent = never
  // A live record keeps the expiry it has; `at` is for one that the write creates.
  bool keep_existing = false;

  bool operator==(const Expiry&) const = default;
};

// ---- log

// A word under which an entry can be found: {"request", "r-17"}.
struct Term {
  std::string index;
  std::string value;

  auto operator<=>(const Term&) const = default;
};

struct Entry {
  Seq seq = 0;
  std::string id;
  Version version = 0;
  std::string value;
  std::string fingerprint;
  std::vector<Term> terms;

  bool operator==(const Entry&) const = default;
};

struct LogInfo {
  Seq last_seq = 0;            // of the newest entry ever appended, removed or not
  std::uint64_t entries = 0;   // that are there now
  std::uint64_t revision = 0;  // grows with every change of the log: by one with each append

  // The same as long as nothing but appends has changed the log: what had a seq then still has.
  std::uint64_t edits() const { return revision - last_seq; }

  bool operator==(const LogInfo&) const = default;
};

// ---- lease

// Proof of having been granted a lease. The counter orders grants; the nonce keeps a token unique
// even if a store loses its newest writes and hands the same counter out again.
struct Token {
  std::uint64_t epoch = 0;
  std::uint64_t nonce = 0;

  bool operator==(const Token&) const = default;
};

struct Lease {
  std::string holder;
  Token token;
  std::optional<Timestamp> expires_at;  // absent = until released or taken over

  bool operator==(const Lease&) const = default;
};

// "The lease of that name in this partition is still mine."
struct Fence {
  std::string lease;
  Token token;
};

// ---- queue

enum class QueuePart : std::uint8_t {
  Line,       // in order, waiting or being worked on
  Scheduled,  // not due yet, so not in the order yet
  Parked,     // given up, kept for inspection and revival
};

struct QueueItem {
  std::string id;
  QueuePart part = QueuePart::Line;
  Seq position = 0;  // its place among those of its part
  std::string payload;
  Timestamp due_at;      // Scheduled: when it may join the line
  Timestamp not_before;  // Line: when it may be tried again; the epoch if at once
  std::uint32_t attempts = 0;
  std::string reason;  // Parked: why

  bool operator==(const QueueItem&) const = default;
};

struct QueueInfo {
  std::uint64_t waiting = 0;
  std::uint64_t scheduled = 0;
  std::uint64_t parked = 0;

  bool operator==(const QueueInfo&) const = default;
};

// ---- directory

// Entries of a directory name things that live in other partitions; see Listing in batch.h.
struct DirectoryEntry {
  std::string key;
  std::string value;

  bool operator==(const DirectoryEntry&) const = default;
};

}  // namespace nimbus::store
