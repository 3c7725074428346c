#pragma once
// What a dispatcher says about itself.

#include <nimbus/dispatch/task.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::dispatch {

/// One worker. Counts begin with the dispatcher.
struct WorkerStats {
  std::string worker_id = {};
  std::size_t session_count = 0;
  std::uint64_t tasks_processed = 0;  ///< Ended after having run: succeeded and failed ones.
  std::uint64_t tasks_failed = 0;
  Duration avg_task_duration = {};  ///< Of an attempt, over all that have ended.
  std::size_t queue_length = 0;     ///< Tasks that wait.
  std::size_t queue_capacity = 0;   ///< Zero: no bound.
  std::size_t running_tasks = 0;    ///< Handlers that run now, stuck ones included.
  std::size_t stuck_tasks = 0;      ///< Handlers that were told to stop and have not.
  Duration stuck_time = {};         ///< How long the longest of them is overdue.
  Duration queue_age = {};          ///< How long the task that is next has been waiting.
  bool leaving = false;             ///< Taken away by resize(); ends when its sessions are idle.
};

/// The whole. `total_submitted` is at any time the sum of the other totals (without retries) and of
/// what waits or runs.
struct DispatcherStats {
  std::uint64_t total_submitted = 0;  ///< Accepted.
  std::uint64_t total_completed = 0;  ///< Succeeded.
  std::uint64_t total_failed = 0;
  std::uint64_t total_cancelled = 0;
  std::uint64_t total_not_run = 0;  ///< Handed back by shutdown().
  std::uint64_t total_retries = 0;
  std::size_t active_sessions = 0;  ///< Have work, or had some within the idle time.
  std::size_t queued_tasks = 0;
  std::vector<WorkerStats> workers = {};
};

/// One active session.
struct SessionStats {
  std::string worker_id = {};
  std::size_t unfinished_tasks = 0;
  bool paused = false;
};

/// What a shutdown left.
struct ShutdownReport {
  std::vector<std::string> not_run = {};        ///< Ids of the tasks that never ran to an end.
  std::vector<Task> not_run_tasks = {};         ///< The same as tasks, each session in its order.
  std::vector<std::string> still_running = {};  ///< Ids of handlers that ignored their stop_token.
};

}  // namespace nimbus::dispatch
