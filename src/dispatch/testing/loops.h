#pragma once
// Event loops as a program may have them, for workers without threads of their own.

#include <nimbus/dispatch/dispatcher.h>

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace nimbus::dispatch {

// Must outlive the dispatcher that uses it; what is still scheduled after the dispatcher's shutdown
// is not run.
class Loops {
 public:
  explicit Loops(std::size_t count) : loops_(count) {
    for (Loop& loop : loops_) loop.thread = std::thread([this, &loop] { run(loop); });
  }
  ~Loops() { stop(); }
  Loops(const Loops&) = delete;
  Loops& operator=(const Loops&) = delete;

  // Makes `config` use the loops, the worker's number deciding which.
  void serve(DispatcherConfig& config) {
    config.schedule = [this](std::size_t worker) { post(loops_[worker % loops_.size()], worker); };
  }
  void begin(Dispatcher& dispatcher) {
    const std::lock_guard lock(mutex_);
    dispatcher_ = &dispatcher;
    changed_.notify_all();
  }
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
      changed_.notify_all();
    }
    for (Loop& loop : loops_) {
      if (loop.thread.joinable()) loop.thread.join();
    }
  }

  std::thread::id threadOf(std::size_t worker) { return loops_[worker].thread.get_id(); }

 private:
  struct Loop {
    std::thread thread;
    std::deque<std::size_t> scheduled;
  };

  void post(Loop& loop, std::size_t worker) {
    const std::lock_guard lock(mutex_);
    loop.scheduled.push_back(worker);
    changed_.notify_all();
  }

  void run(Loop& loop) {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return stopping_ || (dispatcher_ && !loop.scheduled.empty()); });
      if (stopping_) return;
      const std::size_t worker = loop.scheduled.front();
      loop.scheduled.pop_front();
      lock.unlock();
      dispatcher_->run(worker);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  Dispatcher* dispatcher_ = nullptr;
  bool stopping_ = false;
  std::deque<Loop> loops_;
};

}  // namespace nimbus::dispatch
