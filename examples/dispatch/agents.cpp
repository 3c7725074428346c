// Agents that ask a slow model. The handler is a coroutine: while it waits for the model, its
// worker serves the other agents, so that one thread keeps a thousand conversations going. A
// summary waits for both of the answers that it is made of.

#include <nimbus/dispatch.h>

#include <condition_variable>
#include <functional>
#include <iostream>
#include <mutex>
#include <queue>
#include <string>
#include <thread>

using namespace std::chrono_literals;

namespace {

// Stands for a client library with callbacks: answers on a thread of its own.
class Model {
 public:
  ~Model() {
    thread_.request_stop();
    thread_.join();
  }

  void ask(std::string question, std::function<void(std::string)> answer) {
    {
      const std::lock_guard lock(mutex_);
      waiting_.push([question = std::move(question), answer = std::move(answer)] {
        answer("an answer to " + question);
      });
    }
    came_.notify_one();
  }

 private:
  void run(std::stop_token stop) {
    std::unique_lock lock(mutex_);
    while (came_.wait(lock, stop, [this] { return !waiting_.empty(); })) {
      const auto next = std::move(waiting_.front());
      waiting_.pop();
      lock.unlock();
      next();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable_any came_;
  std::queue<std::function<void()>> waiting_;
  std::jthread thread_{[this](std::stop_token stop) { run(stop); }};
};

nimbus::Async<std::string> ask(Model& model, std::string question) {
  const nimbus::Signal<std::string> answer;
  model.ask(std::move(question), [answer](std::string text) { answer.set(std::move(text)); });
  co_return co_await answer;
}

nimbus::Async<nimbus::TaskOutcome> think(Model& model, const nimbus::Task& task) {
  std::string first = co_await ask(model, task.id);
  co_return nimbus::TaskOutcome::ok(std::move(first));
}

}  // namespace

int main() {
  Model model;
  nimbus::DispatcherConfig config;
  config.pool_size = 1;
  config.on_full = nimbus::OnFull::Block;  // rather wait than be refused
  nimbus::Dispatcher agents(
      config, [&](const nimbus::Task& task, std::stop_token) { return think(model, task); });

  for (int i = 0; i < 1000; ++i) {
    agents.submit(
        {.id = "question " + std::to_string(i), .session_id = "agent " + std::to_string(i)});
  }
  agents.submit(
      {.id = "the summary", .session_id = "editor", .depends_on = {"question 7", "question 999"}});

  const auto summary = agents.wait("the summary", 10s);
  std::cout << std::any_cast<std::string>(summary->value) << "\n";
  std::cout << "the questions before it: " << nimbus::toString(agents.status("question 7")) << ", "
            << nimbus::toString(agents.status("question 999")) << "\n";
  const nimbus::ShutdownReport report = agents.shutdown();
  std::cout << report.not_run.size() << " tasks did not run\n";
}
