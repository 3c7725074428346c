#pragma once
// What operators see of functions: figures that the call path keeps as it goes along, and that are
// put together only when somebody looks.
//
// Counting is an addition to a number: no lock, no lookup, whichever thread counts. A function's
// figures hang on its FunctionSpec, so whoever has a call has them.

#include "base/error.h"
#include "base/metrics.h"
#include "base/steady_clock.h"
#include "session/kept.h"
#include "state/operation.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::session {

inline constexpr std::size_t kCodes = static_cast<std::size_t>(Code::InsufficientStorage) + 1;
inline constexpr std::size_t kKinds = static_cast<std::size_t>(state::Operation::Kind::SetMany) + 1;
inline constexpr std::size_t kScopes = static_cast<std::size_t>(state::Scope::Invocation) + 1;

// Any thread may use any member, as of all classes here.
class Tally {
 public:
  void add(std::int64_t change = 1) { value_.fetch_add(change, std::memory_order_relaxed); }
  std::int64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::int64_t> value_ = 0;
};

// Durations, sorted by size.
class Durations {
 public:
  using Bounds = std::span<const std::chrono::microseconds>;

  // `bounds` rise, and outlive this.
  explicit Durations(Bounds bounds) : bounds_(bounds), counts_(bounds.size() + 1) {}

  void add(std::chrono::nanoseconds duration);
  void addTo(Durations& sum) const;
  bool empty() const;
  // `unit`: what 1 stands for in what is shown.
  Metrics::Scrape::Distribution shownIn(std::chrono::nanoseconds unit) const;

 private:
  Bounds bounds_;
  std::vector<Tally> counts_;
  Tally nanoseconds_;
};

// Of state, by kind, scope and how they ended.
class OperationTallies {
 public:
  using Kind = state::Operation::Kind;

  OperationTallies() = default;
  ~OperationTallies();
  OperationTallies(const OperationTallies&) = delete;
  OperationTallies& operator=(const OperationTallies&) = delete;

  // `failed`: the error's code; nothing if it succeeded.
  void add(Kind kind, state::Scope scope, std::optional<Code> failed, std::int64_t count = 1);
  void addTo(OperationTallies& sum) const;

  // `take(kind, scope, failed, count)` for each that there was.
  template <typename Take>
  void forEach(Take&& take) const;

 private:
  using Each = std::array<Tally, kKinds * kScopes>;
  using Failures = std::array<Each, kCodes>;

  static std::size_t place(Kind kind, state::Scope scope) {
    return static_cast<std::size_t>(scope) * kKinds + static_cast<std::size_t>(kind);
  }

  Each succeeded_;
  // Most functions never have any: made by the first.
  std::atomic<Failures*> failed_ = nullptr;
};

// How long a session's turn takes, lately: whoever is turned away is told by it when to come back.
class RecentTurn {
 public:
  // On the function's shard only.
  void add(std::chrono::microseconds turn);
  // Nothing before the first.
  std::optional<std::chrono::microseconds> average() const;

 private:
  std::atomic<std::int64_t> micros_ = -1;
};

// When to come back to a line of that many: when it will have been worked off at the pace of late.
// A second if there is no pace to go by; never 0, never more than an hour.
std::chrono::milliseconds retryAfter(std::size_t waiting, const RecentTurn& turn);

// How a call of a session came to its instance.
enum class Route : std::uint8_t {
  Hit,      // it was there
  Miss,     // the session was in the store only, or had no instance
  Created,  // the session did not exist
  Moved,    // the instance it had was not to be had any more
};

// Figures of all functions together.
class NodeMetrics {
 public:
  NodeMetrics();

  enum class Started : std::uint8_t { Yes, No };
  void instanceStarted(const std::string& runtime, Started started, std::chrono::nanoseconds took);
  // `reason` is a literal.
  void instanceEnded(std::string_view reason);
  void operationTook(state::Operation::Kind kind, std::chrono::nanoseconds duration);

  void expose(Metrics::Scrape& scrape) const;

 private:
  struct Starts {
    Starts();
    Tally succeeded;
    Tally failed;
    Durations took;
  };

  std::deque<Durations> operations_;  // by kind
  mutable std::mutex mutex_;          // instances come and go seldom
  std::map<std::string, Starts> starts_;
  std::map<std::string_view, std::int64_t> ends_;
};

struct FunctionMetrics {
  explicit FunctionMetrics(std::shared_ptr<NodeMetrics> of_node = std::make_shared<NodeMetrics>());

  // An end of a call, as its caller is told: nothing if it succeeded.
  void callEnded(std::optional<Code> failed);
  // An operation that the server carried out.
  void operation(state::Operation::Kind kind, state::Scope scope, std::optional<Code> failed,
                 std::chrono::nanoseconds took);
  void addTo(FunctionMetrics& sum) const;

  const std::shared_ptr<NodeMetrics> node;
  std::array<Tally, kCodes + 1> ends;  // by code; the last: succeeded
  Durations ran;                       // in an instance
  Tally waiting;                       // calls that have been accepted and not begun
  Tally running;
  Tally refused_full;  // the line was as long as it may be
  Tally refused_busy;  // the caller did not want to wait
  Tally accepted;      // asynchronous calls, as are
  Tally retried;
  Tally failed_for_good;
  Tally parked;
  Tally cancelled;
  Tally noted;  // sessions of which more is to be known before a call is taken; see LineNote
  std::array<Tally, 4> routes;
  Tally instances;
  OperationTallies operations;
  Kept kept;
  RecentTurn turn;
};

// The figures of all functions that are deployed, by their ids.
class FunctionMetricsTable {
 public:
  // So many functions are shown by their names; the others together, as `_other`. Who deploys
  // functions without end shall not make every scrape larger.
  static constexpr std::size_t kNamed = 1000;

  explicit FunctionMetricsTable(std::size_t named = kNamed);

  // Those of a function that is deployed; new ones if it was not.
  std::shared_ptr<FunctionMetrics> of(const std::string& function_id);
  // Null if it is not deployed.
  std::shared_ptr<FunctionMetrics> find(const std::string& function_id) const;
  // The function is gone: so are its label values.
  void remove(const std::string& function_id);
  std::vector<std::pair<std::string, std::shared_ptr<FunctionMetrics>>> all() const;

  void expose(Metrics::Scrape& scrape) const;

 private:
  struct Entry {
    std::shared_ptr<FunctionMetrics> metrics;
    bool is_named = false;
  };

  const std::size_t max_named_;
  const std::shared_ptr<NodeMetrics> node_;
  mutable std::mutex mutex_;
  std::map<std::string, Entry> functions_;
  std::size_t named_ = 0;
  FunctionMetrics
      removed_;  // of those without a name that are gone: what was counted stays counted
};

// "too_large" and such; nothing if there is no such code.
std::optional<Code> codeNamed(std::string_view name);

template <typename Take>
void OperationTallies::forEach(Take&& take) const {
  const Failures* const failures = failed_.load(std::memory_order_acquire);
  for (std::size_t scope = 0; scope < kScopes; ++scope) {
    for (std::size_t kind = 0; kind < kKinds; ++kind) {
      const auto its_kind = static_cast<Kind>(kind);
      const auto its_scope = static_cast<state::Scope>(scope);
      const std::size_t at = place(its_kind, its_scope);
      if (const std::int64_t count = succeeded_[at].value(); count != 0) {
        take(its_kind, its_scope, std::optional<Code>(), count);
      }
      for (std::size_t code = 0; failures != nullptr && code < kCodes; ++code) {
        const std::int64_t count = (*failures)[code][at].value();
        if (count != 0) take(its_kind, its_scope, std::optional(static_cast<Code>(code)), count);
      }
    }
  }
}

}  // namespace nimbus::session
