// Each customer's webhooks are delivered in order. A delivery that fails is tried again, and the
// customer's later ones wait for it; one that hangs is given up. Other customers notice nothing. A
// customer who sends too much is told so.

#include <nimbus/dispatch.h>

#include <atomic>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

std::atomic<int> attempts_at_flaky = 0;

nimbus::TaskOutcome deliver(const nimbus::Task& task, std::stop_token stop) {
  if (task.session_id == "flaky" && ++attempts_at_flaky < 3) {
    throw std::runtime_error("connection refused");
  }
  if (task.session_id == "hanging") {
    while (!stop.stop_requested()) std::this_thread::sleep_for(1ms);  // a well-behaved hang
  }
  if (task.session_id == "gone") return nimbus::TaskOutcome::reject("410 Gone");
  return nimbus::TaskOutcome::ok(200);
}

}  // namespace

int main() {
  nimbus::DispatcherConfig config;
  config.pool_size = 2;
  config.session_queue_size = 3;
  config.task_timeout = 50ms;
  config.retry = {.max_attempts = 3, .backoff = 1ms};
  nimbus::Dispatcher hooks(config, deliver);

  for (const std::string customer : {"fine", "flaky", "hanging", "gone"}) {
    hooks.submit({.id = customer, .session_id = customer});
  }
  for (const std::string customer : {"fine", "flaky", "hanging", "gone"}) {
    const auto result = hooks.wait(customer, 10s);
    std::cout << customer << ": " << (result->ok() ? "delivered" : result->error->message)
              << " after " << result->attempts
              << (result->attempts == 1 ? " attempt\n" : " attempts\n");
  }

  hooks.pause("greedy");  // so that nothing leaves while we count
  int accepted = 0;
  nimbus::SubmitStatus status = nimbus::SubmitStatus::Accepted;
  while (status == nimbus::SubmitStatus::Accepted) {
    status = hooks.submit({.session_id = "greedy"});
    accepted += status == nimbus::SubmitStatus::Accepted ? 1 : 0;
  }
  std::cout << "greedy: " << accepted << " accepted, then " << nimbus::toString(status) << "\n";
}
