#pragma once
// What is handed to a dispatcher, and what comes back.

#include <any>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::dispatch {

/// All durations of this library. Takes seconds, milliseconds, microseconds.
using Duration = std::chrono::nanoseconds;

/// One piece of work. Tasks of one session run in the order in which they were accepted, one at a
/// time; tasks of different sessions run in parallel.
struct Task {
  /// Names the task for result(), status(), cancel() and `depends_on`. While an id is known (the
  /// task waits, runs, or its result is kept) a second task with it is refused. A task without an
  /// id can do everything but be asked for.
  std::string id = {};

  /// The line in which the task stands. Any bytes; the empty name is a session like any other.
  std::string session_id = {};

  /// What the handler works on. Destroyed when the task has finished.
  std::any payload = {};

  /// When the task was made; the time of its submit unless set.
  std::chrono::system_clock::time_point created_at = {};

  /// Which session goes first when several are ready, from -3 (last) to 3 (first); what is beyond
  /// counts as the nearest. Within a session order is order: a session stands where the task at its
  /// head puts it. Nobody starves: now and then a turn goes to a lower level.
  int priority = 0;

  /// Runs only after these have succeeded; if one of them fails, is cancelled or does not run, this
  /// task fails without running. Each must be known when the task is submitted, or be in the same
  /// batch. A task that waits for another keeps its place: its session waits too.
  std::vector<std::string> depends_on = {};

  /// Replaces DispatcherConfig::task_timeout for this task. Zero: no limit.
  std::optional<Duration> timeout = {};

  /// Replaces DispatcherConfig::session_queue_size for this submit, if that is not zero: the task
  /// is taken only if its session has fewer unfinished ones than this. Not in a batch.
  std::optional<std::uint32_t> session_queue_size = {};
};

/// Why a task has no value.
struct TaskError {
  enum class Code {
    Failed,            ///< The handler said so.
    Threw,             ///< The handler threw; the message is what() of the exception.
    TimedOut,          ///< The handler did not end in time.
    Cancelled,         ///< cancel() was called, or the dispatcher was shut down while it ran.
    DependencyFailed,  ///< A task that it depends on did not succeed; it was not run.
  };

  Code code = Code::Failed;
  std::string message = {};
};

/// What a handler answers.
class TaskOutcome {
 public:
  static TaskOutcome ok(std::any value = {}) { return TaskOutcome(std::move(value)); }

  /// Tried again while attempts are left (RetryPolicy).
  static TaskOutcome fail(std::string message) { return {std::move(message), Again::Maybe}; }

  /// Not tried again: another attempt cannot help.
  static TaskOutcome reject(std::string message) { return {std::move(message), Again::No}; }

  bool isOk() const { return !error_.has_value(); }
  bool mayBeRetried() const { return again_ == Again::Maybe; }

  std::any& value() { return value_; }
  std::optional<TaskError>& error() { return error_; }

 private:
  enum class Again : std::uint8_t { Maybe, No };

  explicit TaskOutcome(std::any value) : value_(std::move(value)) {}
  TaskOutcome(std::string message, Again again)
      : error_(TaskError{TaskError::Code::Failed, std::move(message)}), again_(again) {}

  std::any value_;
  std::optional<TaskError> error_;
  Again again_ = Again::Maybe;
};

/// How a task ended.
struct TaskResult {
  std::string task_id = {};
  std::string session_id = {};
  std::any value = {};                  ///< What the handler answered with; empty on error.
  std::optional<TaskError> error = {};  ///< Nothing if it succeeded.
  Duration duration = {};               ///< Of the last attempt.
  std::uint32_t attempts = 0;           ///< Zero if it never ran.

  bool ok() const { return !error.has_value(); }
};

enum class TaskStatus {
  Pending,  ///< Waits for its turn, for another attempt, or for what it depends on.
  Running,
  Done,
  Failed,
  Cancelled,  ///< Cancelled, or not run because of a shutdown.
  Unknown,    ///< Never accepted, without an id, or its result is no longer kept.
};

enum class SubmitStatus {
  Accepted,           ///< It will run, or be reported by shutdown().
  QueueFull,          ///< Its worker or its session has no room.
  TooManySessions,    ///< It would begin a session, and every worker has
                      ///< DispatcherConfig::max_sessions.
  Stopped,            ///< The dispatcher is shut down, or about to be.
  DuplicateId,        ///< A task with this id is known already; this one was not taken.
  UnknownDependency,  ///< It depends on a task that is not known (any more).
  DependencyCycle,    ///< It would wait for itself, through dependencies and the order of sessions.
};

std::string_view toString(SubmitStatus status);
std::string_view toString(TaskStatus status);
std::string_view toString(TaskError::Code code);

}  // namespace nimbus::dispatch
