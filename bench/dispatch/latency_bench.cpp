// How long a task waits from its submit to its start when tasks come at a steady rate.
//
//   latency_bench TASKS_PER_SECOND SECONDS SESSIONS
//
// One thread submits on time, by looking at the clock; what it is late itself is not counted.

#include <nimbus/dispatch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

struct Waits {
  std::mutex mutex;
  std::vector<double> micros;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: latency_bench TASKS_PER_SECOND SECONDS SESSIONS\n");
    return 2;
  }
  const double rate = std::stod(argv[1]);
  const double seconds = std::stod(argv[2]);
  const int sessions = std::stoi(argv[3]);

  Waits waits;
  waits.micros.reserve(static_cast<std::size_t>(rate * seconds) + 1);
  nimbus::DispatcherConfig config;
  config.pool_size = 1;  // the submitting thread has the other core
  nimbus::Dispatcher dispatcher(config, [&](const nimbus::Task& task, const std::stop_token&) {
    const auto now = Clock::now();
    const auto submitted = std::any_cast<Clock::rep>(task.payload);
    const double micros = std::chrono::duration<double, std::micro>(now.time_since_epoch() -
                                                                    Clock::duration(submitted))
                              .count();
    const std::lock_guard lock(waits.mutex);
    waits.micros.push_back(micros);
    return nimbus::TaskOutcome::ok();
  });

  std::vector<std::string> names;
  for (int i = 0; i < sessions; ++i) names.push_back("session-" + std::to_string(i));
  const auto interval =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(1 / rate));
  const auto count = static_cast<long>(rate * seconds);
  long refused = 0;
  auto next = Clock::now();
  for (long i = 0; i < count; ++i, next += interval) {
    while (Clock::now() < next) {
    }
    nimbus::Task task;
    task.session_id = names[static_cast<std::size_t>(i * 7919) % names.size()];
    task.payload = Clock::now().time_since_epoch().count();
    if (dispatcher.submit(std::move(task)) != nimbus::SubmitStatus::Accepted) ++refused;
  }
  dispatcher.shutdown();
  std::sort(waits.micros.begin(), waits.micros.end());
  const auto at = [&](double part) {
    return waits
        .micros[static_cast<std::size_t>(part * static_cast<double>(waits.micros.size() - 1))];
  };
  std::printf("%.1f %.1f %.1f %ld\n", at(0.5), at(0.99), at(0.999), refused);
}
