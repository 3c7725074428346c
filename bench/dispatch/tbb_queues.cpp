// A concurrent queue per session. Whoever makes it non-empty lets the arena empty it: so one thread
// at a time works on a session, in order.

#include "contender.h"

#include <tbb/concurrent_queue.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>

#include <unordered_map>

namespace nimbus::bench {
namespace {

class TbbQueues final : public Contender {
 public:
  TbbQueues(unsigned workers, const Names& names, Counter& counter)
      : counter_(counter),
        limit_(tbb::global_control::max_allowed_parallelism, workers + 1),
        // All slots for workers: the submitting thread does not help.
        arena_(static_cast<int>(workers), 0) {
    for (const std::string& name : names) queues_.try_emplace(name);
  }

  void submit(const std::string& session) override {
    Queue& queue = queues_.find(session)->second;
    queue.tasks.push([this] { counter_.done.fetch_add(1, std::memory_order_relaxed); });
    if (queue.waiting.fetch_add(1, std::memory_order_acq_rel) == 0) {
      arena_.enqueue([&queue] { empty(queue); });
    }
  }

 private:
  struct Queue {
    tbb::concurrent_queue<std::function<void()>> tasks;
    std::atomic<std::size_t> waiting = 0;
  };

  static void empty(Queue& queue) {
    std::function<void()> task;
    do {
      queue.tasks.try_pop(task);
      task();
    } while (queue.waiting.fetch_sub(1, std::memory_order_acq_rel) != 1);
  }

  Counter& counter_;
  tbb::global_control limit_;
  tbb::task_arena arena_;
  std::unordered_map<std::string, Queue> queues_;
};

}  // namespace

std::unique_ptr<Contender> makeTbbQueues(unsigned workers, const Names& names, Counter& counter) {
  return std::make_unique<TbbQueues>(workers, names, counter);
}

}  // namespace nimbus::bench
