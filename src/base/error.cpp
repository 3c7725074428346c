#include "base/error.h"

#include <algorithm>
#include <array>

namespace nimbus {

std::string_view codeName(Code code) {
  static constexpr std::array<std::string_view, 21> kNames = {
      "invalid_json",
      "invalid_argument",
      "unauthenticated",
      "forbidden",
      "not_found",
      "method_not_allowed",
      "conflict",
      "version_conflict",
      "too_large",
      "unsupported_media_type",
      "unprocessable",
      "quota_exceeded",
      "rate_limited",
      "queue_full",
      "function_error",
      "internal",
      "function_crashed",
      "unavailable",
      "fenced",
      "timeout",
      "insufficient_storage",
  };
  static_assert(kNames.size() == static_cast<std::size_t>(Code::InsufficientStorage) + 1);
  return kNames.at(static_cast<std::size_t>(code));
}

std::string_view outcomeName(Outcome outcome) {
  switch (outcome) {
    case Outcome::NotApplied:
      return "not_applied";
    case Outcome::Applied:
      return "applied";
    case Outcome::Unknown:
      break;
  }
  return "unknown";
}

std::int64_t Error::field(std::string_view name, std::int64_t absent) const {
  const auto found = std::find_if(fields_.begin(), fields_.end(),
                                  [&](const Field& field) { return field.name == name; });
  if (found == fields_.end()) return absent;
  const auto* number = std::get_if<std::int64_t>(&found->value);
  return number != nullptr ? *number : absent;
}

Error Error::with(std::string_view name, std::int64_t value) && {
  fields_.push_back({name, value});
  return std::move(*this);
}

Error Error::with(std::string_view name, std::string value) && {
  fields_.push_back({name, std::move(value)});
  return std::move(*this);
}

Error Error::in(std::string_view what) && {
  message_.insert(0, ": ");
  message_.insert(0, what);
  return std::move(*this);
}

}  // namespace nimbus
