#pragma once
// What the store keeps of a session besides its state.

#include "base/clock.h"
#include "base/result.h"
#include "store/partition.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::session {

struct SessionRecord {
  std::uint64_t seq = 0;  // of the newest call that was committed
  // Numbers up to this one may have been answered with, by calls that wrote nothing. After a crash
  // numbering goes on behind it.
  std::uint64_t reserved = 0;
  Timestamp created_at;
  Timestamp last_access;
  std::optional<Millis> timeout;  // after last_access the session is gone; absent: never
  std::string instance;           // that ran its newest call

  std::uint64_t lastNumber() const { return std::max(seq, reserved); }
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

// Where a session lies: its record in a space of its own, beside its state.
store::Partition sessionPartition(std::string_view function_id, std::string_view session_key);
store::Partition functionStatePartition(std::string_view function_id);
inline constexpr const char* kSessionSpace = "session";
inline constexpr const char* kSessionRecord = "session";
inline constexpr const char* kOwnerLease = "owner";

// The directory of a function's sessions.
std::string sessionDirectory(std::string_view function_id);

}  // namespace nimbus::session
