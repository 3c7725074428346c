// Tasks a second, against what else can keep the order of a session, in one run. bench/dispatch/run
// prints the ratios and the latency.

#include "contender.h"

#include <benchmark/benchmark.h>

#include <chrono>
#include <random>
#include <thread>

namespace nimbus::bench {
namespace {

constexpr unsigned kWorkers = 2;
constexpr std::uint64_t kTasks = 1'000'000;
// How far the submitting thread may be ahead: what two queues of the default size hold.
constexpr std::uint64_t kAhead = 2'000;

using Factory = std::unique_ptr<Contender> (*)(unsigned, const Names&, Counter&);

Names makeNames(std::int64_t count) {
  Names names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back("session-" + std::to_string(i));
  return names;
}

// The sessions in random order, drawn beforehand.
std::vector<std::uint32_t> makeOrder(std::size_t sessions) {
  std::mt19937 random(7);
  std::vector<std::uint32_t> order(kTasks);
  for (auto& session : order) session = static_cast<std::uint32_t>(random() % sessions);
  return order;
}

void waitUntil(const Counter& counter, std::uint64_t done) {
  while (counter.done.load(std::memory_order_relaxed) < done) std::this_thread::yield();
}

void emptyTasks(benchmark::State& state, Factory make) {
  const Names names = makeNames(state.range(0));
  const auto order = makeOrder(names.size());
  Counter counter;
  const auto contender = make(kWorkers, names, counter);
  std::uint64_t submitted = 0;
  // Who submits has just read the session's name from somewhere: it is in the cache.
  constexpr std::size_t kAtHand = 8;
  const auto round = [&] {
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i + kAtHand < order.size()) __builtin_prefetch(&names[order[i + kAtHand]]);
      contender->submit(names[order[i]]);
      if (++submitted % 256 == 0 && submitted > kAhead) waitUntil(counter, submitted - kAhead);
    }
    waitUntil(counter, submitted);
  };
  round();  // sessions begin, memory is touched
  for (auto _ : state) round();
  state.SetItemsProcessed(static_cast<std::int64_t>(kTasks) * state.iterations());
}

void compare(const char* name, Factory make) {
  benchmark::RegisterBenchmark(name, [make](benchmark::State& state) { emptyTasks(state, make); })
      ->Arg(1'000)
      ->Arg(100'000)
      ->Unit(benchmark::kMillisecond)
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Iterations(3);
}

}  // namespace
}  // namespace nimbus::bench

int main(int argc, char** argv) {
  using namespace nimbus::bench;
  compare("nimbus", makeDispatcher);
  compare("nimbus_with_ids", makeNamedDispatcher);
  compare("asio_strands", makeStrands);
  compare("tbb_queues", makeTbbQueues);
  compare("caf_actors", makeCafActors);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
