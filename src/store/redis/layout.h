#pragma once
// How what the store keeps is named in Redis; docs/redis-layout.md tells people the same.
//
// All keys of a partition have its name as their hash tag, so they live in one slot. Names of
// spaces, logs, queues and directories are percent-encoded: no ':' and no brace in them is ever
// ours.

#include "store/partition.h"

#include <string>
#include <string_view>
#include <vector>

namespace nimbus::store::redis {

// A hash of all that is small: counters of spaces, logs and queues, and the leases. It also tells
// what the partition has. Its name is the channel on which changes are published.
std::string metaKey(std::string_view partition);
// A sorted set: limiter -> when it is full again, in microseconds.
std::string limitersKey(std::string_view partition);

// Never there; see Topology.
std::string missingKey(std::string_view partition);

enum class Kind : char { Space = 's', Log = 'l', Queue = 'q' };

// The keys of a space (records; keys in order; expiries), a log (entries; ids by seq; index) or a
// queue (items; line; scheduled; parked), in the order in which scripts expect them. `name` is
// encoded.
std::vector<std::string> keysOf(Kind kind, std::string_view name, std::string_view partition);

struct DirectoryKeys {
  std::string values;  // hash: key -> value
  std::string keys;    // sorted set: keys in order
};
DirectoryKeys directoryKeys(std::string_view directory);

// Everything that sweeping looks at matches this, and perhaps what others named alike.
inline constexpr const char* kExpiryPattern = "*:expiry:{*}";

// A key that matches the pattern, taken apart.
struct ExpiryKey {
  std::string space;  // encoded; empty: limiters
  std::string partition;
};
// False if it cannot be one of ours.
bool parseExpiryKey(std::string_view key, ExpiryKey& parsed);

// The name of the partition that a key belongs to.
std::string_view partitionOf(std::string_view key);

}  // namespace nimbus::store::redis
