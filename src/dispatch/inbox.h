#pragma once
// What is on its way to a worker. Many threads push, each with one exchange of a pointer (again, if
// another was quicker); the worker takes all that is there at once. Sleeping is a value of the same
// word, so that whoever pushes first on a sleeping worker knows that it must wake it, and nobody
// else tries.

#include "dispatch/job.h"

#include <atomic>
#include <cstdint>

namespace nimbus::dispatch {

class Inbox {
 public:
  // A chain, newest first, of which `oldest` is the end. True: the worker sleeps; wake it.
  [[nodiscard]] bool push(Job& newest, Job& oldest) {
    Job* seen = head_.load(std::memory_order_relaxed);
    do {
      oldest.link = seen == asleep() ? nullptr : seen;
    } while (!head_.compare_exchange_weak(seen, &newest, std::memory_order_acq_rel,
                                          std::memory_order_relaxed));
    return seen == asleep();
  }

  // Oldest first. Only under the worker's mutex.
  Job* takeAll() {
    Job* newest = head_.load(std::memory_order_relaxed);
    if (newest == nullptr || newest == asleep()) return nullptr;
    newest = head_.exchange(nullptr, std::memory_order_acq_rel);
    Job* oldest = nullptr;
    while (newest != nullptr) {
      Job* const next = newest->link;
      newest->link = oldest;
      oldest = newest;
      newest = next;
    }
    return oldest;
  }

  bool isEmpty() const { return head_.load(std::memory_order_relaxed) == nullptr; }

  // False if something came meanwhile. Only under the worker's mutex.
  bool fallAsleep() {
    Job* empty = nullptr;
    return head_.compare_exchange_strong(empty, asleep(), std::memory_order_acq_rel);
  }

  // True: it slept, and must be woken now.
  [[nodiscard]] bool rouse() {
    Job* expected = asleep();
    return head_.compare_exchange_strong(expected, nullptr, std::memory_order_acq_rel);
  }

 private:
  static Job* asleep() { return reinterpret_cast<Job*>(std::uintptr_t{1}); }

  std::atomic<Job*> head_ = nullptr;
};

}  // namespace nimbus::dispatch
