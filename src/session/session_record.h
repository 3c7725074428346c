#pragma once
// What the store keeps of a session besides its state.

#include "base/clock.h"
#include "base/result.h"
#include "store/partition.h"
#include "store/types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::session {

// Written when the session is claimed, when it is forgotten, and now and then: not with every call.
struct SessionRecord {
  // Numbers up to this one may have been given to calls. Whoever claims the session goes on behind
  // it; while it is owned the owner knows better.
  std::uint64_t reserved = 0;
  Timestamp created_at;
  Timestamp last_access;
  std::optional<Millis> timeout;  // after last_access the session is gone; absent: never
  std::string instance;           // that ran its newest call
  std::string owner;              // key of the node that has claimed it; empty: none has
  bool has_work = false;          // there may be asynchronous calls of it
  bool is_paused = false;         // starts no call
  bool is_draining = false;       // takes no call

  std::optional<Timestamp> expiresAt() const {
    return timeout ? std::optional(last_access + *timeout) : std::nullopt;
  }
  bool isOver(Timestamp now) const {
    const auto at = expiresAt();
    return at && *at <= now;
  }

  std::string toJson() const;
  static Result<SessionRecord> fromJson(std::string_view json);

  bool operator==(const SessionRecord&) const = default;
};

// The version of the record is the fencing epoch of the session: every commit of an owner requires
// the one he gave it last. Whoever claims the session moves it further than commits can be under
// way, so that none of the owner before finds the version it requires. A session that was deleted
// begins anew at random, because the store counts from the start again.
inline constexpr unsigned kEpochBits = 20;
inline constexpr store::Version versionOfClaim(store::Version before) {
  return ((before >> kEpochBits) + 2) << kEpochBits;
}
// Whether nobody has claimed the session between the two.
inline constexpr bool isOfOneClaim(store::Version one, store::Version other) {
  return one >> kEpochBits == other >> kEpochBits;
}
inline constexpr store::Version versionOfFirstClaim(std::uint64_t random) {
  return ((random >> 36U) + 1) << kEpochBits;  // 28 bits of it; versions have 53
}

// Where a session lies: its record in a space of its own, beside its state.
store::Partition sessionPartition(std::string_view function_id, std::string_view session_key);
store::Partition functionStatePartition(std::string_view function_id);
inline constexpr const char* kSessionSpace = "session";
inline constexpr const char* kSessionRecord = "session";

// The directory of a function's sessions.
std::string sessionDirectory(std::string_view function_id);

}  // namespace nimbus::session
