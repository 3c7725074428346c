#pragma once
// What state operations throw.

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace nimbus {

// An operation on state that was refused, and changed nothing.
class StateError : public std::runtime_error {
 public:
  StateError(std::string code, const std::string& message,
             std::optional<std::int64_t> current_version = std::nullopt)
      : std::runtime_error(code + ": " + message),
        code_(std::move(code)),
        current_version_(current_version) {}

  // One of the codes of the API: invalid_argument, not_found, too_large, quota_exceeded,
  // version_conflict, forbidden, unavailable, ...
  const std::string& code() const { return code_; }
  // On a version_conflict: what the key has, 0 if it is not there.
  std::optional<std::int64_t> currentVersion() const { return current_version_; }

 private:
  std::string code_;
  std::optional<std::int64_t> current_version_;
};

namespace native {

inline StateError invalid(const std::string& message) {
  return {"invalid_argument", message};
}

inline StateError ended() {
  return {"unavailable", "the call that this state belongs to has ended"};
}

inline std::string named(std::string_view key) {
  return "\"" + std::string(key) + "\"";
}

}  // namespace native
}  // namespace nimbus
