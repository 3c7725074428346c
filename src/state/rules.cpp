#include "state/rules.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace nimbus::state {
namespace {

// A time that is this far away is never reached, and no sum with it overflows.
constexpr double kLongestTtl = 1e12;

Timestamp after(double seconds, Timestamp now) {
  // At least a millisecond: what expires at once was never there.
  const double millis = std::max(1.0, std::ceil(std::min(seconds, kLongestTtl) * 1000));
  return now + Millis(static_cast<Millis::rep>(millis));
}

}  // namespace

Result<> checkKey(std::string_view key) {
  return checkText("state key", key);
}

Result<> checkValue(const Rules& rules, std::string_view key, std::string_view value) {
  if (rules.max_value_bytes != 0 && value.size() > rules.max_value_bytes) {
    return Error(Code::TooLarge, fmt::format("the value of \"{}\" has {} bytes, {} are allowed",
                                             printable(key), value.size(), rules.max_value_bytes))
        .with("limit", static_cast<std::int64_t>(rules.max_value_bytes));
  }
  if (auto checked = checkJson(value); !checked) {
    return std::move(checked).error().in(fmt::format("the value of \"{}\"", printable(key)));
  }
  return {};
}

Result<std::optional<Timestamp>> expiryOf(const Rules& rules, std::optional<double> ttl,
                                          Timestamp now) {
  if (!ttl || *ttl == 0) {
    if (!rules.default_ttl) return std::optional<Timestamp>();
    return std::optional(now + *rules.default_ttl);
  }
  if (*ttl == -1) return std::optional<Timestamp>();
  NIMBUS_TRY(const Timestamp at, expiryAfter(*ttl, now));
  return std::optional(at);
}

Result<Timestamp> expiryAfter(double ttl, Timestamp now) {
  if (!(ttl > 0) || std::isinf(ttl)) {
    return Error(Code::InvalidArgument,
                 fmt::format("a ttl of {} seconds: it must be more than 0", ttl));
  }
  return after(ttl, now);
}

std::optional<std::int64_t> integerOf(std::string_view value) {
  // As JSON spells integers; "-0", "01" and "+1" are none.
  std::int64_t number = 0;
  const char* const end = value.data() + value.size();
  const auto [stopped, failed] = std::from_chars(value.data(), end, number);
  if (failed != std::errc() || stopped != end) return std::nullopt;
  const std::string_view digits = value.starts_with('-') ? value.substr(1) : value;
  if (digits.size() > 1 && digits.front() == '0') return std::nullopt;
  if (value == "-0") return std::nullopt;
  return number;
}

Error noInteger(std::string_view key) {
  return {Code::InvalidArgument,
          fmt::format("\"{}\" does not hold an integer of 64 bits", printable(key))};
}

Error overflows(std::string_view key) {
  return {Code::InvalidArgument,
          fmt::format("\"{}\" would not be an integer of 64 bits any more", printable(key))};
}

Error missing(std::string_view key) {
  return {Code::NotFound, fmt::format("there is no \"{}\"", printable(key))};
}

Error disabled() {
  return {Code::Forbidden, "state is switched off for this function (state_config.enabled)"};
}

}  // namespace nimbus::state
