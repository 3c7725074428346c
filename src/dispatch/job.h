#pragma once
// A task inside the dispatcher, from its submit until its result is forgotten.

#include "dispatch/clock.h"

#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <stop_token>

namespace nimbus::dispatch {

struct Session;
class Worker;

enum class Phase : std::uint32_t { Queued, Running, Backoff, Done, Failed, Cancelled, NotRun };

inline bool isFinal(Phase phase) {
  return phase >= Phase::Done;
}

// Who asked a running handler to stop. The first one decides how the task ends.
enum class StopCause : std::uint8_t { None, Timeout, Cancel, Shutdown };

struct Job {
  static constexpr std::uint32_t kNoPlace = 0xFFFFFFFF;
  static constexpr std::uint32_t kPhaseMask = 0xFF;
  static constexpr std::uint32_t kAwaited = 0x100;  // somebody must be told when it has ended

  Job* link = nullptr;  // in the inbox; later among the kept results; last among the free
  Job* next = nullptr;  // the ring of its session's line
  Job* previous = nullptr;
  Session* session = nullptr;  // valid until the job has left its line
  Worker* worker = nullptr;
  Instant submitted_at;
  std::atomic<std::uint32_t> mark = 0;  // Phase, and kAwaited
  std::uint32_t place_in_deadlines = kNoPlace;
  std::uint32_t place_in_running = kNoPlace;
  std::atomic<std::uint32_t> blocked_on = 0;  // unfinished tasks that it depends on
  std::uint32_t attempts = 0;
  StopCause stop_cause = StopCause::None;
  bool dependency_failed = false;
  bool stuck = false;
  bool arrived = false;  // its flight wants a turn of the worker

  // Its handler overran: the end is published (by another thread: concluding) before it returned.
  bool concluded = false;
  bool concluding = false;
  bool returned = false;

  Task task;
  std::uint64_t id_hash = 0;
  std::atomic<Job*> next_in_bucket = nullptr;  // of the index by id

  Instant started_at;
  Instant overdue_since;
  std::stop_source stop{std::nostopstate};
  Async<TaskOutcome> flight;        // coroutine handlers only
  std::coroutine_handle<> waiting;  // what its worker is to resume; none: the flight has ended

  // Written before the phase becomes final, and not afterwards.
  std::any value;
  std::unique_ptr<TaskError> error;
  Duration duration = {};
  Instant finished_at;

  Phase phase() const {
    return static_cast<Phase>(mark.load(std::memory_order_acquire) & kPhaseMask);
  }
  bool isNamed() const { return !task.id.empty(); }

  // For steps between phases that are not final. kAwaited stays.
  void enter(Phase phase) {
    std::uint32_t seen = mark.load(std::memory_order_relaxed);
    while (!mark.compare_exchange_weak(seen, (seen & kAwaited) | static_cast<std::uint32_t>(phase),
                                       std::memory_order_release, std::memory_order_relaxed)) {
    }
  }

  // Publishes the end. True if somebody must be told.
  [[nodiscard]] bool end(Phase phase) {
    return (mark.exchange(static_cast<std::uint32_t>(phase), std::memory_order_acq_rel) &
            kAwaited) != 0;
  }

  // Asks to be told of the end. False if it has ended already.
  [[nodiscard]] bool await() {
    const std::uint32_t seen = mark.fetch_or(kAwaited, std::memory_order_acq_rel);
    return !isFinal(static_cast<Phase>(seen & kPhaseMask));
  }

  TaskResult result() const {
    return {.task_id = task.id,
            .session_id = task.session_id,
            .value = value,
            .error = error ? std::optional<TaskError>(*error) : std::nullopt,
            .duration = duration,
            .attempts = attempts};
  }
};

}  // namespace nimbus::dispatch
