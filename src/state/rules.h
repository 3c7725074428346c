#pragma once
// What a function's configuration says about its state.

#include "base/clock.h"
#include "base/result.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace nimbus::state {

// 0 is no limit.
struct Rules {
  bool enabled = true;
  std::optional<Millis> default_ttl = std::chrono::hours(1);  // absent: values do not expire
  std::uint64_t max_value_bytes = 64UL * 1024;
  std::uint64_t max_keys = 100;
  std::uint64_t max_total_bytes = 0;

  bool operator==(const Rules&) const = default;
};

// Keys: 1..256 bytes of UTF-8 without control characters.
Result<> checkKey(std::string_view key);

Result<> checkValue(const Rules& rules, std::string_view key, std::string_view value);

// When something written now expires. `ttl` in seconds: absent or 0 is the default, -1 never.
Result<std::optional<Timestamp>> expiryOf(const Rules& rules, std::optional<double> ttl,
                                          Timestamp now);

// For `expire`, where there is no default: `ttl` must be more than 0.
Result<Timestamp> expiryAfter(double ttl, Timestamp now);

// What `incr` works on: a decimal integer of 64 bits with a sign. Nothing if it is none.
std::optional<std::int64_t> integerOf(std::string_view value);

Error noInteger(std::string_view key);
Error overflows(std::string_view key);
Error missing(std::string_view key);
Error disabled();

}  // namespace nimbus::state
