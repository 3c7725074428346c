#pragma once
// Every field of a definition that an author may say: its name in JSON, its kind, its range.
// Reading and writing both walk this list, so that neither can know a field that the other does
// not.
//
// A visitor has a member function per kind. enter() begins an object, and answers whether to go
// into it; leave() ends it.

#include "function/definition.h"

#include <array>
#include <cstdint>
#include <string_view>

namespace nimbus::function {

struct Range {
  std::uint64_t min = 0;
  std::uint64_t max = 0;
};

// In the order of their enumerators.
inline constexpr std::array<std::string_view, 4> kRuntimes = {"python", "node", "native", "exec"};
inline constexpr std::array<std::string_view, 3> kIsolations = {"process", "sandbox", "microvm"};
inline constexpr std::array<std::string_view, 2> kOnFull = {"reject", "block"};
inline constexpr std::array<std::string_view, 2> kOnPoison = {"park", "pause"};
inline constexpr std::array<std::string_view, 2> kOnError = {"rollback", "keep"};

inline constexpr std::uint64_t kDay = 86'400'000;  // in milliseconds
inline constexpr std::uint64_t kCentury =
    36'525 * kDay;  // as good as never, and safe to add to now
inline constexpr std::uint64_t kGiB = 1'073'741'824;

// `Target` is Definition, const or not.
template <typename Target, typename Visitor>
void eachField(Target& target, const Defaults& defaults, Visitor& visit) {
  visit.choice("runtime", target.runtime, kRuntimes);
  visit.text("handler", target.handler);
  visit.environment("env", target.env);
  visit.millis("timeout_ms", target.timeout, Range{1, kDay});
  visit.count("memory_mb", target.memory_mb, Range{0, 1'048'576});
  visit.count("min_instances", target.min_instances, Range{0, 1'000});
  visit.count("max_instances", target.max_instances, Range{1, 1'000});
  visit.count("concurrency", target.concurrency, Range{1, 1'000});
  visit.choice("isolation", target.isolation, kIsolations);
  visit.flag("network", target.network);

  if (visit.enter("retry", target.retry, Retry())) {
    visit.count("max_attempts", target.retry.max_attempts, Range{1, 1'000});
    visit.millis("initial_ms", target.retry.initial, Range{0, kDay});
    visit.number("factor", target.retry.factor, Range{1, 100});
    visit.millis("max_ms", target.retry.max, Range{0, kDay});
    visit.leave();
  }
  if (visit.enter("queue", target.queue, Queue())) {
    visit.count("max_per_session", target.queue.max_per_session, Range{0, 1'000'000});
    visit.choice("on_full", target.queue.on_full, kOnFull);
    visit.leave();
  }
  visit.choice("on_poison", target.on_poison, kOnPoison);

  if (visit.enter("state_config", target.state, defaults.state)) {
    visit.flag("enabled", target.state.enabled);
    visit.seconds("default_ttl", target.state.default_ttl, Range{0, kCentury});
    visit.count("max_state_size", target.state.max_state_size, Range{0, kGiB});
    visit.count("max_keys", target.state.max_keys, Range{0, 1'000'000'000});
    visit.count("max_total_size", target.state.max_total_size, Range{0, 1'024 * kGiB});
    visit.flag("session_affinity", target.state.session_affinity);
    visit.seconds("session_timeout", target.state.session_timeout, Range{0, kCentury});
    visit.choice("on_error", target.state.on_error, kOnError);
    visit.leave();
  }
}

}  // namespace nimbus::function
