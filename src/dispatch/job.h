#pragma once
// A task inside the dispatcher, from its submit until its result is forgotten.

#include "dispatch/clock.h"
#include "dispatch/pins.h"

#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <any>
#include <atomic>
#include <coroutine>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>

namespace nimbus::dispatch {

class JobShelf;
class Worker;
struct Line;
class Session;

enum class Phase : std::uint16_t { Queued, Running, Backoff, Done, Failed, Cancelled, NotRun };

inline bool isFinal(Phase phase) {
  return phase >= Phase::Done;
}

// Who asked a running handler to stop. The first one decides how the task ends.
enum class StopCause : std::uint8_t { None, Timeout, Cancel, Shutdown };

// Jobs are written by one thread and read by another: what the worker needs of every task is in the
// first cache line, and what only the worker writes is apart from what the submitter does. The rest
// stays with the submitter unless the handler asks for it.
struct alignas(kCacheLine) Job {
  static constexpr std::uint32_t kNoPlace = 0xFFFFFFFF;
  static constexpr std::uint16_t kPhaseMask = 0xFF;
  static constexpr std::uint16_t kAwaited = 0x100;  // somebody must be told when it has ended

  Job* link = nullptr;         // in the inbox; later among the kept results; last on the shelf
  Job* next = nullptr;         // the ring of its line
  Job* previous = nullptr;     //
  Session* session = nullptr;  // valid until the job has left its line
  JobShelf* shelf = nullptr;   // where it goes when it is done with
  Instant submitted_at;
  std::uint32_t attempts = 0;
  std::atomic<std::uint32_t> blocked_on = 0;  // unfinished tasks that it depends on
  std::atomic<std::uint16_t> mark = 0;        // Phase, and kAwaited
  std::int8_t priority = 0;
  bool is_named : 1 = false;
  bool has_dependencies : 1 = false;
  bool has_own_timeout : 1 = false;
  bool holds_memory : 1 = false;  // the task does: it must be cleared, not only overwritten
  bool dependency_failed = false;
  bool arrived = false;  // its flight wants a turn of the worker

  alignas(kCacheLine) Worker* worker = nullptr;
  Task task;
  std::uint64_t id_hash = 0;
  std::atomic<Job*> next_in_bucket = nullptr;  // of the index by id

  // The worker's.
  alignas(kCacheLine) Line* line = nullptr;  // none: it has not come yet, or has left
  Instant started_at;
  Instant overdue_since;
  std::uint32_t place_in_deadlines = kNoPlace;
  std::uint32_t place_in_running = kNoPlace;
  std::stop_source stop{std::nostopstate};
  Async<TaskOutcome> flight;        // coroutine handlers only
  std::coroutine_handle<> waiting;  // what its worker is to resume; none: the flight has ended
  StopCause stop_cause = StopCause::None;
  bool stuck = false;
  // Its handler overran: the end is published (by another thread: concluding) before it returned.
  bool concluded = false;
  bool concluding = false;
  bool returned = false;

  // Written before the phase becomes final, and not afterwards.
  std::any value;
  std::unique_ptr<TaskError> error;
  Duration duration = {};
  Instant finished_at;

  // Looked at before it is moved, and not touched where it goes: what is only written needs no
  // wait.
  void take(Task&& submitted) {
    priority = static_cast<std::int8_t>(submitted.priority < -100  ? -100
                                        : submitted.priority > 100 ? 100
                                                                   : submitted.priority);
    is_named = !submitted.id.empty();
    has_dependencies = !submitted.depends_on.empty();
    has_own_timeout = submitted.timeout.has_value();
    holds_memory = submitted.payload.has_value() || has_dependencies || isLong(submitted.id) ||
                   isLong(submitted.session_id);
    // The task that was here holds nothing (reset()), so it need not be destroyed.
    std::construct_at(&task, std::move(submitted));
  }

  static bool isLong(const std::string& text) { return text.capacity() > std::string().capacity(); }

  Phase phase() const {
    return static_cast<Phase>(mark.load(std::memory_order_acquire) & kPhaseMask);
  }

  // For steps between phases that are not final. kAwaited stays.
  void enter(Phase from, Phase to) {
    const auto change = static_cast<unsigned>(from) ^ static_cast<unsigned>(to);
    mark.fetch_xor(static_cast<std::uint16_t>(change), std::memory_order_release);
  }

  // Publishes the end. True if somebody must be told.
  [[nodiscard]] bool end(Phase phase) {
    const auto before = mark.exchange(static_cast<std::uint16_t>(phase), std::memory_order_acq_rel);
    return (before & kAwaited) != 0;
  }

  // Asks to be told of the end. False if it has ended already.
  [[nodiscard]] bool await() {
    const std::uint16_t seen = mark.fetch_or(kAwaited, std::memory_order_acq_rel);
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

  // Ready for another task. Destroys what this one and its handler left. A task that holds nothing
  // is not touched: its cache lines are the submitter's, who will write them again.
  void reset() {
    if (holds_memory) {
      // Not by assignment: a string that is assigned to keeps its memory.
      std::destroy_at(&task);
      std::construct_at(&task);
      holds_memory = false;
    }
    mark.store(0, std::memory_order_relaxed);
    blocked_on.store(0, std::memory_order_relaxed);
    attempts = 0;
    dependency_failed = false;
    arrived = false;
    stop = std::stop_source(std::nostopstate);
    stop_cause = StopCause::None;
    stuck = concluded = concluding = returned = false;
    value.reset();
    error.reset();
    duration = {};
  }
};

}  // namespace nimbus::dispatch
