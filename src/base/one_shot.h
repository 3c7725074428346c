#pragma once
// Carries one value from any thread to one waiting task.
//
// This is how work done on a thread of its own (a store's writer, a pool) comes back to the task
// that asked for it: set() on the worker's thread, wait() on the task's. No lock is held and none
// is needed: the two meet in one atomic exchange.

#include "base/assert.h"
#include "base/task.h"

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <cstdint>
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

  // At most once. Everything written before is visible to the task that wait() resumes.
  void set();
  bool isSet() const { return state_.load(std::memory_order_acquire) == kSet; }

  // At most one task may wait, once. It is resumed on its own executor. It is not woken by
  // cancellation: what it waits for comes, and the answer may matter to others.
  Task<> wait();

 private:
  struct Waiter {
    boost::asio::any_completion_handler<void()> handler;
    boost::asio::any_io_executor executor;  // also keeps its context running until then
  };
  static constexpr std::uintptr_t kEmpty = 0;
  static constexpr std::uintptr_t kSet = 1;

  static void resume(Waiter* waiter);

  std::atomic<std::uintptr_t> state_ = kEmpty;  // kEmpty, kSet, or the address of the Waiter
};

template <typename T>
class OneShot {
 public:
  void set(T value) {
    value_.emplace(std::move(value));
    event_.set();
  }
  bool isSet() const { return event_.isSet(); }

  Task<T> wait() {
    co_await event_.wait();
    co_return *std::move(value_);
  }

 private:
  std::optional<T> value_;
  OneShotEvent event_;
};

}  // namespace nimbus
