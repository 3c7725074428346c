#include "session/function_metrics.h"

#include <algorithm>

namespace nimbus::session {
namespace {

using std::chrono::microseconds;
using Kind = Metrics::Kind;
using Scrape = Metrics::Scrape;

// From a function that does next to nothing to one that waits for others.
constexpr std::array kRunBounds = {
    microseconds(100),        microseconds(250),       microseconds(500),
    microseconds(1'000),      microseconds(2'500),     microseconds(5'000),
    microseconds(10'000),     microseconds(25'000),    microseconds(50'000),
    microseconds(100'000),    microseconds(250'000),   microseconds(500'000),
    microseconds(1'000'000),  microseconds(2'500'000), microseconds(5'000'000),
    microseconds(10'000'000), microseconds(30'000'000)};
constexpr std::array kStartBounds = {
    microseconds(1'000),     microseconds(2'500),     microseconds(5'000),
    microseconds(10'000),    microseconds(25'000),    microseconds(50'000),
    microseconds(100'000),   microseconds(250'000),   microseconds(500'000),
    microseconds(1'000'000), microseconds(5'000'000), microseconds(30'000'000)};
constexpr std::array kOperationBounds = {
    microseconds(100),     microseconds(500),     microseconds(1'000),    microseconds(2'000),
    microseconds(5'000),   microseconds(10'000),  microseconds(25'000),   microseconds(50'000),
    microseconds(100'000), microseconds(250'000), microseconds(1'000'000)};

// One turn in so many decides about the average.
constexpr std::int64_t kTurns = 8;

constexpr std::string_view kOther = "_other";
constexpr std::size_t kSucceeded = kCodes;
constexpr std::array<std::string_view, 4> kRoutes = {"hit", "miss", "created", "moved"};

std::string nameOf(std::optional<Code> failed) {
  return std::string(failed ? codeName(*failed) : "ok");
}

double shown(const Tally& tally) {
  return static_cast<double>(std::max<std::int64_t>(tally.value(), 0));
}

template <std::size_t N>
void addEach(const std::array<Tally, N>& from, std::array<Tally, N>& to) {
  for (std::size_t i = 0; i < N; ++i) to[i].add(from[i].value());
}

}  // namespace

std::optional<Code> codeNamed(std::string_view name) {
  for (std::size_t code = 0; code < kCodes; ++code) {
    if (codeName(static_cast<Code>(code)) == name) return static_cast<Code>(code);
  }
  return std::nullopt;
}

// ---- Durations

void Durations::add(std::chrono::nanoseconds duration) {
  std::size_t place = 0;
  while (place < bounds_.size() && duration > bounds_[place]) ++place;
  counts_[place].add();
  nanoseconds_.add(duration.count());
}

void Durations::addTo(Durations& sum) const {
  for (std::size_t i = 0; i < counts_.size(); ++i) sum.counts_[i].add(counts_[i].value());
  sum.nanoseconds_.add(nanoseconds_.value());
}

bool Durations::empty() const {
  return std::all_of(counts_.begin(), counts_.end(),
                     [](const Tally& tally) { return tally.value() == 0; });
}

Scrape::Distribution Durations::shownIn(std::chrono::nanoseconds unit) const {
  const auto one = static_cast<double>(unit.count());
  Scrape::Distribution shown;
  for (const std::chrono::nanoseconds bound : bounds_) {
    shown.bounds.push_back(static_cast<double>(bound.count()) / one);
  }
  for (const Tally& count : counts_) {
    shown.counts.push_back(static_cast<std::uint64_t>(count.value()));
  }
  shown.sum = static_cast<double>(nanoseconds_.value()) / one;
  return shown;
}

// ---- Operations

OperationTallies::~OperationTallies() {
  delete failed_.load();  // NOLINT(cppcoreguidelines-owning-memory)
}

void OperationTallies::add(Kind kind, state::Scope scope, std::optional<Code> failed,
                           std::int64_t count) {
  if (!failed) {
    succeeded_[place(kind, scope)].add(count);
    return;
  }
  Failures* failures = failed_.load(std::memory_order_acquire);
  if (failures == nullptr) {
    auto made = std::make_unique<Failures>();
    // Of several that make one at once the first wins.
    if (failed_.compare_exchange_strong(failures, made.get(), std::memory_order_acq_rel)) {
      failures = made.release();
    }
  }
  (*failures)[static_cast<std::size_t>(*failed)][place(kind, scope)].add(count);
}

void OperationTallies::addTo(OperationTallies& sum) const {
  forEach([&](Kind kind, state::Scope scope, std::optional<Code> failed, std::int64_t count) {
    sum.add(kind, scope, failed, count);
  });
}

// ---- When to come back

void RecentTurn::add(microseconds turn) {
  const std::int64_t before = micros_.load(std::memory_order_relaxed);
  const std::int64_t now = before < 0 ? turn.count() : before + (turn.count() - before) / kTurns;
  micros_.store(now, std::memory_order_relaxed);
}

std::optional<microseconds> RecentTurn::average() const {
  const std::int64_t micros = micros_.load(std::memory_order_relaxed);
  return micros < 0 ? std::nullopt : std::optional(microseconds(micros));
}

std::chrono::milliseconds retryAfter(std::size_t waiting, const RecentTurn& turn) {
  using std::chrono::milliseconds;
  constexpr milliseconds kUnknown{1'000};
  constexpr milliseconds kMost{3'600'000};
  const auto average = turn.average();
  if (!average) return kUnknown;
  // The line, and the call that runs.
  const double micros = static_cast<double>(waiting + 1) * static_cast<double>(average->count());
  if (micros >= 1000.0 * static_cast<double>(kMost.count())) return kMost;
  return std::max(milliseconds(1),
                  std::chrono::ceil<milliseconds>(microseconds(static_cast<std::int64_t>(micros))));
}

// ---- All functions together

NodeMetrics::Starts::Starts() : took(kStartBounds) {}

NodeMetrics::NodeMetrics() {
  for (std::size_t i = 0; i < kKinds; ++i) operations_.emplace_back(kOperationBounds);
}

void NodeMetrics::instanceStarted(const std::string& runtime, Started started,
                                  std::chrono::nanoseconds took) {
  const std::lock_guard lock(mutex_);
  Starts& starts = starts_[runtime];
  if (started == Started::No) {
    starts.failed.add();
    return;
  }
  starts.succeeded.add();
  starts.took.add(took);
}

void NodeMetrics::instanceEnded(std::string_view reason) {
  const std::lock_guard lock(mutex_);
  ++ends_[reason];
}

void NodeMetrics::operationTook(state::Operation::Kind kind, std::chrono::nanoseconds duration) {
  operations_[static_cast<std::size_t>(kind)].add(duration);
}

void NodeMetrics::expose(Scrape& scrape) const {
  scrape.family(Kind::Histogram, "nimbus_state_operation_duration_ms",
                "Milliseconds that state operations took which the server carried out: function "
                "scope, stateless calls, HTTP. Others are done in an instance's memory.");
  for (std::size_t i = 0; i < operations_.size(); ++i) {
    if (operations_[i].empty()) continue;
    const std::string operation(state::nameOf(static_cast<state::Operation::Kind>(i)));
    scrape.sample({{"operation", operation}}, operations_[i].shownIn(std::chrono::milliseconds(1)));
  }
  const std::lock_guard lock(mutex_);
  scrape.family(Kind::Counter, "nimbus_instance_starts_total", "Instances started, or not.");
  for (const auto& [runtime, starts] : starts_) {
    scrape.sample({{"runtime", runtime}, {"result", "ok"}}, shown(starts.succeeded));
    scrape.sample({{"runtime", runtime}, {"result", "failed"}}, shown(starts.failed));
  }
  scrape.family(Kind::Histogram, "nimbus_instance_start_duration_seconds",
                "From the wish for an instance to a loaded function.");
  for (const auto& [runtime, starts] : starts_) {
    if (starts.took.empty()) continue;
    scrape.sample({{"runtime", runtime}}, starts.took.shownIn(std::chrono::seconds(1)));
  }
  scrape.family(Kind::Counter, "nimbus_instance_ends_total", "Instances that ended, by reason.");
  for (const auto& [reason, count] : ends_) {
    scrape.sample({{"reason", std::string(reason)}}, static_cast<double>(count));
  }
}

// ---- One function

FunctionMetrics::FunctionMetrics(std::shared_ptr<NodeMetrics> of_node)
    : node(std::move(of_node)), ran(kRunBounds) {}

void FunctionMetrics::callEnded(std::optional<Code> failed) {
  ends[failed ? static_cast<std::size_t>(*failed) : kSucceeded].add();
}

void FunctionMetrics::operation(state::Operation::Kind kind, state::Scope scope,
                                std::optional<Code> failed, std::chrono::nanoseconds took) {
  operations.add(kind, scope, failed);
  node->operationTook(kind, took);
}

void FunctionMetrics::addTo(FunctionMetrics& sum) const {
  addEach(ends, sum.ends);
  ran.addTo(sum.ran);
  sum.waiting.add(waiting.value());
  sum.running.add(running.value());
  sum.refused_full.add(refused_full.value());
  sum.refused_busy.add(refused_busy.value());
  sum.accepted.add(accepted.value());
  sum.retried.add(retried.value());
  sum.failed_for_good.add(failed_for_good.value());
  sum.parked.add(parked.value());
  sum.cancelled.add(cancelled.value());
  addEach(routes, sum.routes);
  sum.instances.add(instances.value());
  operations.addTo(sum.operations);
}

// ---- The table

FunctionMetricsTable::FunctionMetricsTable(std::size_t named)
    : max_named_(named), node_(std::make_shared<NodeMetrics>()), removed_(node_) {}

std::shared_ptr<FunctionMetrics> FunctionMetricsTable::of(const std::string& function_id) {
  const std::lock_guard lock(mutex_);
  Entry& entry = functions_[function_id];
  if (!entry.metrics) {
    entry.metrics = std::make_shared<FunctionMetrics>(node_);
    entry.is_named = named_ < max_named_;
    if (entry.is_named) ++named_;
  }
  return entry.metrics;
}

std::shared_ptr<FunctionMetrics> FunctionMetricsTable::find(const std::string& function_id) const {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(function_id);
  return found != functions_.end() ? found->second.metrics : nullptr;
}

void FunctionMetricsTable::remove(const std::string& function_id) {
  const std::lock_guard lock(mutex_);
  const auto found = functions_.find(function_id);
  if (found == functions_.end()) return;
  if (found->second.is_named) {
    --named_;
  } else {
    found->second.metrics->addTo(removed_);
  }
  functions_.erase(found);
}

std::vector<std::pair<std::string, std::shared_ptr<FunctionMetrics>>> FunctionMetricsTable::all()
    const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, std::shared_ptr<FunctionMetrics>>> all;
  all.reserve(functions_.size());
  for (const auto& [id, entry] : functions_) all.emplace_back(id, entry.metrics);
  return all;
}

void FunctionMetricsTable::expose(Scrape& scrape) const {
  struct Shown {
    std::string id;
    std::shared_ptr<const FunctionMetrics> metrics;
    std::optional<KeptTotals> kept;
  };
  std::vector<Shown> all;
  {
    const std::lock_guard lock(mutex_);
    const auto others = std::make_shared<FunctionMetrics>(node_);
    std::optional<KeptTotals> kept_by_others;
    removed_.addTo(*others);
    for (const auto& [id, entry] : functions_) {
      const std::optional<KeptTotals> kept = entry.metrics->kept.totals();
      if (entry.is_named) {
        all.push_back({id, entry.metrics, kept});
        continue;
      }
      entry.metrics->addTo(*others);
      if (!kept) continue;
      const KeptTotals before = kept_by_others.value_or(KeptTotals());
      kept_by_others = {before.sessions + kept->sessions, before.bytes + kept->bytes};
    }
    if (named_ < functions_.size()) all.push_back({std::string(kOther), others, kept_by_others});
  }

  const auto eachFunction = [&](const auto& write) {
    for (const Shown& one : all) write(one.id, *one.metrics);
  };
  const auto gauge = [&](const char* name, const char* help, Tally FunctionMetrics::*tally) {
    scrape.family(Kind::Gauge, name, help);
    eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
      scrape.sample({{"function_id", id}}, shown(metrics.*tally));
    });
  };

  scrape.family(Kind::Counter, "nimbus_invocations_total",
                "Calls that were answered, by how: ok, or the code of the error.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    for (std::size_t i = 0; i < metrics.ends.size(); ++i) {
      if (metrics.ends[i].value() == 0) continue;
      const auto failed = i == kSucceeded ? std::nullopt : std::optional(static_cast<Code>(i));
      scrape.sample({{"function_id", id}, {"outcome", nameOf(failed)}}, shown(metrics.ends[i]));
    }
  });
  scrape.family(Kind::Histogram, "nimbus_invocation_duration_seconds",
                "How long calls ran in an instance.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    if (metrics.ran.empty()) return;
    scrape.sample({{"function_id", id}}, metrics.ran.shownIn(std::chrono::seconds(1)));
  });
  gauge("nimbus_invocations_running", "Calls whose turn has come and that have not ended.",
        &FunctionMetrics::running);
  gauge("nimbus_queue_waiting", "Calls that wait for their turn.", &FunctionMetrics::waiting);
  scrape.family(Kind::Counter, "nimbus_queue_refused_total",
                "Calls that were turned away: the line was full, or the caller would not wait.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    const auto add = [&](const char* reason, const Tally& count) {
      if (count.value() == 0) return;
      scrape.sample({{"function_id", id}, {"reason", reason}}, shown(count));
    };
    add("queue_full", metrics.refused_full);
    add("busy", metrics.refused_busy);
  });
  scrape.family(Kind::Counter, "nimbus_async_invocations_total",
                "Asynchronous calls: accepted, tried again, failed, given up, cancelled.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    const auto add = [&](const char* event, const Tally& count) {
      if (count.value() == 0) return;
      scrape.sample({{"function_id", id}, {"event", event}}, shown(count));
    };
    add("accepted", metrics.accepted);
    add("retried", metrics.retried);
    add("failed", metrics.failed_for_good);
    add("parked", metrics.parked);
    add("cancelled", metrics.cancelled);
  });
  gauge("nimbus_instances", "Processes that run the function.", &FunctionMetrics::instances);
  scrape.family(Kind::Counter, "nimbus_session_route_total",
                "How calls of sessions came to their instance.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    for (std::size_t i = 0; i < kRoutes.size(); ++i) {
      if (metrics.routes[i].value() == 0) continue;
      scrape.sample({{"function_id", id}, {"result", std::string(kRoutes[i])}},
                    shown(metrics.routes[i]));
    }
  });
  scrape.family(Kind::Counter, "nimbus_state_operation_total", "Operations on state.");
  eachFunction([&](const std::string& id, const FunctionMetrics& metrics) {
    metrics.operations.forEach([&](state::Operation::Kind kind, state::Scope scope,
                                   std::optional<Code> failed, std::int64_t count) {
      scrape.sample({{"function_id", id},
                     {"operation", std::string(state::nameOf(kind))},
                     {"scope", std::string(state::nameOf(scope))},
                     {"status", nameOf(failed)}},
                    static_cast<double>(count));
    });
  });
  scrape.family(Kind::Gauge, "nimbus_session_count",
                "Sessions that exist: counted in the background, and kept up to date since.");
  for (const Shown& one : all) {
    if (!one.kept) continue;
    scrape.sample({{"function_id", one.id}}, static_cast<double>(one.kept->sessions));
  }
  scrape.family(Kind::Gauge, "nimbus_state_storage_bytes",
                "Bytes of values in the store: counted in the background, and kept up to date "
                "since.");
  for (const Shown& one : all) {
    if (!one.kept) continue;
    scrape.sample({{"function_id", one.id}}, static_cast<double>(one.kept->bytes));
  }
  node_->expose(scrape);
}

}  // namespace nimbus::session
