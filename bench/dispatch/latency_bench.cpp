// How long a task waits from its submit to its start when tasks come at a steady rate.
//
//   latency_bench TASKS_PER_SECOND SECONDS SESSIONS
//
// One thread submits on time, by looking at the clock; what it is late itself is not counted. It
// has a processor of its own, because the kernel likes to wake the worker where it is woken from,
// and there it would wait for the end of the submitter's time slice. Then the same with nothing in
// between but an atomic counter that another thread never stops looking at: what that shows is the
// machine's doing, not ours. Prints a line for each: the 50th, 99th and 99.9th percentile in
// microseconds, and how many tasks were refused.

#include <nimbus/dispatch.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Load {
  double rate;
  std::size_t count;
  std::size_t sessions;
};

void submitOnTime(const Load& load, const std::function<void(std::size_t)>& submit) {
  const auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / load.rate));
  auto next = Clock::now();
  for (std::size_t i = 0; i < load.count; ++i, next += interval) {
    while (Clock::now() < next) {
    }
    submit(i);
  }
}

// Threads that are begun from now on run there too.
void runOn(unsigned processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  sched_setaffinity(0, sizeof(set), &set);
}

double microsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

void print(std::vector<double> waits, std::size_t refused) {
  std::sort(waits.begin(), waits.end());
  const auto at = [&](double part) {
    return waits[static_cast<std::size_t>(part * static_cast<double>(waits.size() - 1))];
  };
  std::printf("%.1f %.1f %.1f %zu\n", at(0.5), at(0.99), at(0.999), refused);
}

void throughTheDispatcher(const Load& load) {
  std::vector<double> waits;  // written by the only worker
  waits.reserve(load.count);
  nimbus::DispatcherConfig config;
  config.pool_size = 1;
  runOn(1);
  nimbus::Dispatcher dispatcher(config, [&](const nimbus::Task& task, const std::stop_token&) {
    waits.push_back(microsSince(std::any_cast<Clock::time_point>(task.payload)));
    return nimbus::TaskOutcome::ok();
  });
  std::vector<std::string> names;
  for (std::size_t i = 0; i < load.sessions; ++i) names.push_back("session-" + std::to_string(i));
  std::size_t refused = 0;
  runOn(0);
  submitOnTime(load, [&](std::size_t i) {
    nimbus::Task task;
    task.session_id = names[i * 7919 % names.size()];
    task.payload = Clock::now();
    if (dispatcher.submit(std::move(task)) != nimbus::SubmitStatus::Accepted) ++refused;
  });
  dispatcher.shutdown();
  print(std::move(waits), refused);
}

void throughNothing(const Load& load) {
  std::vector<Clock::time_point> begins(load.count);
  std::vector<double> waits;
  waits.reserve(load.count);
  std::atomic<std::size_t> submitted = 0;
  runOn(1);
  std::thread other([&] {
    while (waits.size() < load.count) {
      const std::size_t seen = submitted.load(std::memory_order_acquire);
      while (waits.size() < seen) waits.push_back(microsSince(begins[waits.size()]));
    }
  });
  runOn(0);
  submitOnTime(load, [&](std::size_t i) {
    begins[i] = Clock::now();
    submitted.store(i + 1, std::memory_order_release);
  });
  other.join();
  print(std::move(waits), 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: latency_bench TASKS_PER_SECOND SECONDS SESSIONS\n");
    return 2;
  }
  const double rate = std::stod(argv[1]);
  const Load load{.rate = rate,
                  .count = static_cast<std::size_t>(rate * std::stod(argv[2])),
                  .sessions = std::stoul(argv[3])};
  throughTheDispatcher(load);
  throughNothing(load);
}
