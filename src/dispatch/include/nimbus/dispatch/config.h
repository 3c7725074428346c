#pragma once
// How a dispatcher behaves. Every field has a sound default.

#include <nimbus/dispatch/task.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

/// What a submit does when there is no room.
enum class OnFull : std::uint8_t {
  Reject,  ///< Answers QueueFull or TooManySessions at once.
  Block,   ///< Waits for room, first come, first served; see DispatcherConfig::block_timeout.
};

/// Which worker a session gets when its first task comes. Afterwards it stays there until it has
/// been idle for DispatcherConfig::session_idle_time, or until its worker is taken away.
enum class Placement : std::uint8_t {
  /// Consistent hashing with bounded load: a session comes back to the same worker as long as the
  /// workers are the same, few move when they change, and none gets more than 1.15 of its share.
  ConsistentHash,
  RoundRobin,
  /// The worker with the fewest sessions.
  LeastLoaded,
};

/// The session waits while its first task does: no later task passes one that is tried again.
struct RetryPolicy {
  std::uint32_t max_attempts = 1;
  Duration backoff = std::chrono::milliseconds(100);  ///< Before the second attempt.
  double factor = 2.0;                                ///< From one pause to the next.
  Duration max_backoff = std::chrono::seconds(10);
  double jitter = 0.1;  ///< Each pause is longer by a random part of up to this.
};

enum class LogLevel : std::uint8_t { Debug, Info, Warning, Off };

/// Something worth a line in a log. The views live as long as the call.
struct LogEvent {
  LogLevel level = LogLevel::Info;
  /// One of: "task accepted", "task done", "task cancelled", "task not run" (Debug); "worker
  /// started", "worker stopped", "resized", "shutdown" (Info); "task failed", "task retried", "task
  /// stuck", "task unstuck", "callback threw" (Warning).
  std::string_view what = {};
  std::string_view worker_id = {};
  std::string_view session_id = {};
  std::string_view task_id = {};
  std::string_view detail = {};
};

/// How a dispatcher behaves. What is set here stays as it is, but for resize() and setQueueSize().
struct DispatcherConfig {
  /// Workers. Zero: one per hardware thread.
  std::size_t pool_size = 0;

  /// Tasks that may wait at one worker. Zero: no bound.
  std::size_t queue_size = 1000;

  /// Tasks of one session that may be unfinished (waiting or running). Zero: no bound of its own.
  std::size_t session_queue_size = 0;

  /// Sessions per worker. Zero: no bound.
  std::size_t max_sessions = 0;

  /// How long a handler may take before its stop_token is set and the task has failed. Zero: no
  /// limit.
  Duration task_timeout = std::chrono::seconds(30);

  /// How long a handler that was told to stop may take to end before it counts as stuck. Its
  /// session then waits for it; the worker goes on with the others on a thread of its own.
  Duration stop_grace = std::chrono::milliseconds(20);

  /// How long shutdown() lets accepted tasks run.
  Duration shutdown_timeout = std::chrono::seconds(30);

  OnFull on_full = OnFull::Reject;

  /// How long a blocked submit waits for room before it answers QueueFull. Nothing: as long as it
  /// takes.
  std::optional<Duration> block_timeout = {};

  RetryPolicy retry = {};

  Placement placement = Placement::ConsistentHash;

  /// How much of the sessions each worker gets, relative to the others; 1 where none is given. A
  /// weight of 2 gets twice the sessions.
  std::vector<unsigned> weights = {};

  /// A session without tasks is forgotten after this time; then its next task may go elsewhere.
  Duration session_idle_time = std::chrono::seconds(60);

  /// A worker serves its ready sessions in turns. A turn ends after so many tasks or so much time.
  std::uint32_t quantum_tasks = 16;
  Duration quantum_time = std::chrono::microseconds(200);

  /// How long results are kept for result(), and how many per worker.
  Duration result_retention = std::chrono::minutes(5);
  std::size_t max_results = 10'000;

  /// Coroutine handlers: sessions of one worker that may be in flight at once. Zero: no bound.
  std::size_t max_in_flight = 0;

  /// How long a worker without work looks for more before it sleeps, if work usually comes again in
  /// that time. Costs processor time; spares the next task a wake-up. Zero: it sleeps at once.
  Duration spin = std::chrono::microseconds(50);

  /// Chooses the worker of a session that begins, in place of `placement` and `weights`: the number
  /// of a worker, below `pool_size`. Called from any thread, with a lock held: look, do not act.
  std::function<std::size_t(std::string_view session_id, std::size_t pool_size)> place = {};

  /// Workers on threads of yours, such as those of event loops, in place of threads of their own.
  /// Called from any thread when a worker has something to do, perhaps with a lock held: have its
  /// thread call Dispatcher::run(worker) soon, and do no more. A handler that blocks then blocks
  /// whatever else runs there. No worker may be run after the dispatcher was destroyed.
  std::function<void(std::size_t worker)> schedule = {};

  /// Called for what happens, from any thread, never while a lock is held. Must not throw.
  std::function<void(const LogEvent&)> log = {};
  LogLevel log_level = LogLevel::Info;
};

}  // namespace nimbus::dispatch
