#pragma once
// Coroutines for handlers that wait.
//
//   nimbus::Async<nimbus::TaskOutcome> handle(const nimbus::Task& task, std::stop_token stop) {
//     nimbus::Signal<Reply> reply;
//     client.ask(question(task), [reply](Reply r) { reply.set(std::move(r)); });
//     co_return nimbus::TaskOutcome::ok(co_await reply);
//   }
//
// A handler may await other Asyncs, Signals, and awaitables of other libraries. After a Signal it
// goes on on its worker. After a foreign awaitable it goes on wherever that library resumes it; its
// end is handed to its worker from there.

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

namespace nimbus::dispatch {

struct Job;

template <typename T = void>
class Async;

namespace detail {

// The coroutine that a handler returned has ended.
void flightEnded(Job& job) noexcept;

// Lets the worker of the job resume `waiting`.
void resumeOnWorker(Job& job, std::coroutine_handle<> waiting) noexcept;

struct AsyncPromiseBase {
  Job* job = nullptr;                    // whose handler this belongs to
  std::coroutine_handle<> continuation;  // who awaits this; none for the handler itself
  std::exception_ptr exception;

  struct FinalAwaiter {
    bool await_ready() const noexcept { return false; }

    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> ended) const noexcept {
      AsyncPromiseBase& promise = ended.promise();
      if (promise.continuation) return promise.continuation;
      flightEnded(*promise.job);
      return std::noop_coroutine();
    }

    void await_resume() const noexcept {}
  };

  std::suspend_always initial_suspend() const noexcept { return {}; }
  FinalAwaiter final_suspend() const noexcept { return {}; }
  void unhandled_exception() noexcept { exception = std::current_exception(); }
};

template <typename T>
struct AsyncPromise : AsyncPromiseBase {
  std::optional<T> value;

  Async<T> get_return_object();
  template <typename U>
  void return_value(U&& result) {
    value.emplace(std::forward<U>(result));
  }
  T take() {
    if (exception) std::rethrow_exception(exception);
    return std::move(*value);
  }
};

template <>
struct AsyncPromise<void> : AsyncPromiseBase {
  Async<void> get_return_object();
  void return_void() noexcept {}
  void take() const {
    if (exception) std::rethrow_exception(exception);
  }
};

}  // namespace detail

/// A coroutine that starts when it is awaited (a handler's: when its turn comes) and gives a T.
template <typename T>
class [[nodiscard]] Async {
 public:
  using promise_type = detail::AsyncPromise<T>;
  using Handle = std::coroutine_handle<promise_type>;

  Async() = default;
  explicit Async(Handle handle) : handle_(handle) {}
  Async(Async&& other) noexcept : handle_(std::exchange(other.handle_, {})) {}
  Async& operator=(Async&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Async() {
    if (handle_) handle_.destroy();
  }

  auto operator co_await() && noexcept { return Awaiter{handle_}; }

  /// For the dispatcher.
  Handle handle() const { return handle_; }

 private:
  struct Awaiter {
    Handle child;

    bool await_ready() const noexcept { return false; }

    template <typename Promise>
    std::coroutine_handle<> await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      child.promise().job = parent.promise().job;
      child.promise().continuation = parent;
      return child;
    }

    T await_resume() const { return child.promise().take(); }
  };

  Handle handle_;
};

template <typename T>
Async<T> detail::AsyncPromise<T>::get_return_object() {
  return Async<T>(std::coroutine_handle<AsyncPromise>::from_promise(*this));
}

inline Async<void> detail::AsyncPromise<void>::get_return_object() {
  return Async<void>(std::coroutine_handle<AsyncPromise>::from_promise(*this));
}

/// One value from any thread to one waiting handler. Copies refer to the same signal.
template <typename T>
class Signal {
 public:
  Signal() : state_(std::make_shared<State>()) {}

  /// The first value counts; later ones are dropped.
  void set(T value) const {
    if (state_->claimed.exchange(true, std::memory_order_relaxed)) return;
    state_->value.emplace(std::move(value));
    if (state_->meeting.exchange(kSet, std::memory_order_acq_rel) != kAwaited) return;
    detail::resumeOnWorker(*state_->job, state_->waiting);
  }

  /// At most one handler may await it, once.
  auto operator co_await() const noexcept { return Awaiter{state_}; }

 private:
  static constexpr int kOpen = 0;
  static constexpr int kAwaited = 1;
  static constexpr int kSet = 2;

  struct State {
    std::atomic<bool> claimed = false;
    std::atomic<int> meeting = kOpen;
    std::optional<T> value;
    Job* job = nullptr;
    std::coroutine_handle<> waiting;
  };

  struct Awaiter {
    std::shared_ptr<State> state;

    bool await_ready() const noexcept {
      return state->meeting.load(std::memory_order_acquire) == kSet;
    }

    template <typename Promise>
    bool await_suspend(std::coroutine_handle<Promise> parent) const noexcept {
      state->job = parent.promise().job;
      state->waiting = parent;
      int expected = kOpen;
      return state->meeting.compare_exchange_strong(expected, kAwaited, std::memory_order_acq_rel);
    }

    T await_resume() const { return std::move(*state->value); }
  };

  std::shared_ptr<State> state_;
};

}  // namespace nimbus::dispatch
