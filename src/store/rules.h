#pragma once
// What the primitives mean, where it is arithmetic: shared by the backends that are written in C++,
// so that they cannot drift apart.

#include "base/clock.h"
#include "base/result.h"
#include "store/batch.h"
#include "store/query.h"
#include "store/types.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::store {

// Expiry is exact: at the very millisecond the thing is gone.
inline bool isLive(const std::optional<Timestamp>& expires_at, Timestamp now) {
  return !expires_at || *expires_at > now;
}

// The record that a write replaces, as far as its expiry goes.
struct Replaced {
  bool live = false;
  std::optional<Timestamp> expires_at;  // means something only if it is live
};
// When a record written now expires.
std::optional<Timestamp> expiryOf(const Expiry& expiry, const Replaced& replaced);

// The int64 that `text` spells in the one way we write it; nothing for any other text.
std::optional<std::int64_t> parseInteger(std::string_view text);

// What the record holds after op::Add. InvalidArgument if `text` is no integer or the sum does not
// fit. `text` absent counts as 0.
Result<std::int64_t> addTo(std::optional<std::string_view> text, std::int64_t delta);

// The state of a limiter is one number: the theoretical arrival time of GCRA, in microseconds
// since the epoch. What is in the past says nothing, so a full limiter needs no row.
struct GcraStep {
  std::int64_t arrival_us = 0;  // to be stored
  Taken taken;
};
// RateLimited if there are too few units, InvalidArgument if the parameters make no sense.
Result<GcraStep> gcra(const op::Take& take, std::int64_t arrival_us, Timestamp now);

// Whether growing from `before` to `after` breaks `limit` (0 = none).
inline bool exceeds(std::uint64_t limit, std::uint64_t before, std::uint64_t after) {
  return limit != 0 && after > limit && after > before;
}

// InvalidArgument if no page can have this limit.
Result<> checkLimit(std::size_t limit);
// The same for the limit of the query, if it has one.
Result<> checkQuery(const Query& query);

// The refusals that batch.h promises, worded once.
Error fenced(const std::string& lease);
Error chainBroken();
Error versionConflict(Version current);
Error versionTooLow(Version given, Version highest);
Error notFound(std::string_view what, const std::string& id);
Error idTaken(const std::string& id, Seq seq);
Error leaseHeld(const std::string& lease, const std::string& holder);
Error quotaExceeded(std::string_view what, std::uint64_t limit);
Error logMoved(const std::string& log, const LogInfo& info);

}  // namespace nimbus::store
