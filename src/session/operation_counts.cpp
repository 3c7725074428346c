#include "session/operation_counts.h"

namespace nimbus::session {
namespace {

// What one call may claim to have done; more is a mistake.
constexpr std::int64_t kMost = 1'000'000'000'000;

void count(std::string_view name, std::int64_t times, OperationTallies& tallies) {
  if (times < 1 || times > kMost) return;
  auto scope = std::optional(state::Scope::Session);
  if (const std::size_t slash = name.find('/'); slash != name.npos) {
    scope = state::scopeNamed(name.substr(0, slash));
    name.remove_prefix(slash + 1);
  }
  std::optional<Code> failed;
  if (const std::size_t colon = name.find(':'); colon != name.npos) {
    failed = codeNamed(name.substr(colon + 1));
    if (!failed) return;
    name = name.substr(0, colon);
  }
  const auto kind = state::kindNamed(name);
  if (kind && scope) tallies.add(*kind, *scope, failed, times);
}

}  // namespace

void countOperations(const JsonValue& operations, OperationTallies& tallies) {
  for (const auto& [name, times] : operations.members()) {
    if (const auto number = times.integer()) count(name, *number, tallies);
  }
}

}  // namespace nimbus::session
