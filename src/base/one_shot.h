#pragma once
// Carries one value from any thread to one waiting task.
//
// This is how work done on a thread of its own (a store's writer, a pool) comes back to the task
// that asked for it: set() on the worker's thread, wait() on the task's. No lock is held and none
// is needed: the two meet in one atomic exchange.

#include "base/assert.h"
#include "base/task.h"

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

namespace nimbus {

// The meeting point without the value.
class OneShotEvent {
 public:
  OneShotEvent() = default;
  ~OneShotEvent();
  OneShotEvent(const OneShotEvent&) = delete;
  OneShotEvent& operator=(const OneShotEvent&) = delete;

  // At most once. Everything written before is visible to the task that wait() resumes. The event
  // may be gone as soon as this is called.
  void set();
  bool isSet() const { return state_.load(std::memory_order_acquire) == kSet; }

  // At most one task may wait, once. It is resumed on its own executor, which is kept running until
  // then. It is not woken by cancellation: what it waits for comes, and the answer may matter to
  // others.
  Task<> wait();

 private:
  friend class ResumeTogether;

  // A task that waits, as the one who resumes it sees it.
  class Waiter;
  struct Begin;

  static constexpr std::uintptr_t kEmpty = 0;
  static constexpr std::uintptr_t kSet = 1;

  std::atomic<std::uintptr_t> state_ = kEmpty;  // kEmpty, kSet, or the address of the Waiter
};

// While one of these lives on a thread, tasks whose events are set there are not resumed one by
// one, but together, by one hand-over per executor, when it ends. Whoever sets many events at once
// (a group commit) pays for one wake-up instead of hundreds.
class ResumeTogether {
 public:
  ResumeTogether();
  ~ResumeTogether();
  ResumeTogether(const ResumeTogether&) = delete;
  ResumeTogether& operator=(const ResumeTogether&) = delete;

 private:
  friend class OneShotEvent;
  struct State;

  void add(std::unique_ptr<OneShotEvent::Waiter> waiter);

  std::unique_ptr<State> state_;
};

template <typename T>
class OneShot {
 public:
  void set(T value) {
    value_.emplace(std::move(value));
    event_.set();
  }
  bool isSet() const { return event_.isSet(); }

  // `owner` is kept alive until the task has the value: the OneShot may be a member of it.
  Task<T> wait(std::shared_ptr<const void> owner = nullptr) {
    // An event that is set already costs no suspension.
    if (!event_.isSet()) co_await event_.wait();
    co_return *std::move(value_);
  }

 private:
  std::optional<T> value_;
  OneShotEvent event_;
};

}  // namespace nimbus
