#pragma once
// The dispatcher itself. Include <nimbus/dispatch.h>, which explains it and brings the names into
// namespace nimbus; this header is for code that wants them in nimbus::dispatch only.

#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/config.h>
#include <nimbus/dispatch/stats.h>
#include <nimbus/dispatch/task.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

class Core;

/// Runs tasks in the order of their session on a fixed set of workers.
///
/// All functions may be called from any thread, and from handlers and callbacks too; where that
/// makes a difference it says so. Where the dispatcher itself finds no memory the process ends:
/// half of a change would cost order or tasks. Functions throw only what copying a value of yours
/// throws, and std::system_error where a thread cannot be had.
class Dispatcher {
 public:
  /// Runs a task to its end. `stop` is set when the task is cancelled or its time is up: return
  /// soon then. A throw is a failed attempt. The task lives until the handler returns.
  using Handler = std::function<TaskOutcome(const Task& task, std::stop_token stop)>;

  /// The asynchronous form: a coroutine. While it waits, its worker serves other sessions; the next
  /// task of its own session starts when it has ended. The task lives until then.
  using AsyncHandler = std::function<Async<TaskOutcome>(const Task& task, std::stop_token stop)>;

  /// Told how a task ended.
  using ResultCallback = std::function<void(const TaskResult& result)>;

  /// Starts the workers.
  Dispatcher(DispatcherConfig config, Handler handler);
  Dispatcher(DispatcherConfig config, AsyncHandler handler);

  /// shutdown(), if that was not called before.
  ~Dispatcher();

  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  /// Called once for every accepted task that ends, before the next task of its session starts;
  /// for one session therefore in order. Runs where the task ended: keep it short. What it throws
  /// is logged. Tasks that end before it is set are not reported to it.
  void onResult(ResultCallback callback);

  /// The same, for tasks that end with an error only.
  void onError(ResultCallback callback);

  /// Takes a task into its session's line. If it is not accepted, `task` is left as it was, so that
  /// it can be tried again. With OnFull::Block it waits for room, but never in a handler or
  /// callback of this dispatcher: a worker that waits for itself would wait for ever.
  SubmitStatus submit(Task&& task);
  SubmitStatus submit(const Task& task);

  /// As above, but waits for room until `patience` is over, whatever the configuration says.
  SubmitStatus submit(Task&& task, Duration patience);

  /// One status per task, in the order given. All or nothing per session: either all tasks of the
  /// batch that name a session are accepted, without another's between them, or none is. Does not
  /// wait for room. `tasks` keeps those that were not accepted, in their places.
  std::vector<SubmitStatus> submitBatch(std::vector<Task>&& tasks);
  std::vector<SubmitStatus> submitBatch(const std::vector<Task>& tasks);

  /// How a task ended. Nothing if it has not, or if it is not known; status() tells which.
  std::optional<TaskResult> result(std::string_view task_id) const;

  /// The same, but waits for the end. Nothing if it is not known or `patience` is over.
  std::optional<TaskResult> wait(std::string_view task_id, Duration patience) const;

  /// Where the task is; Unknown for one without an id, or whose result is no longer kept.
  TaskStatus status(std::string_view task_id) const;

  /// A task that waits never runs; a running one has its stop_token set. Either way it ends as
  /// Cancelled, whatever its handler answers. False if it has ended already, is about to end for
  /// another reason (its time is up, a shutdown), or is not known.
  bool cancel(std::string_view task_id);

  /// A paused session accepts tasks and starts none. What runs goes on. It stays paused, and is not
  /// forgotten, until resume() is called.
  void pause(std::string_view session_id);
  void resume(std::string_view session_id);

  /// Waits until the session has no unfinished task. False if `patience` is over first.
  bool drain(std::string_view session_id, Duration patience);

  /// Nothing for a session that is not active.
  std::optional<SessionStats> session(std::string_view session_id) const;

  /// Changes the number of workers (zero: one per hardware thread) while all goes on. New sessions
  /// are spread over the new set at once. A session that has work or is younger than the idle time
  /// stays with its worker; a worker taken away serves its sessions until they have no work, and
  /// ends then. Returns without waiting for that.
  void resize(std::size_t pool_size);

  /// Serves what is ready at a worker that has no thread of its own, and returns when there is
  /// nothing left to do now, or after half a millisecond or so. For DispatcherConfig::schedule.
  void run(std::size_t worker);

  /// Changes DispatcherConfig::queue_size. What waits already is not turned away.
  void setQueueSize(std::size_t queue_size);

  /// A picture of now. Asks each worker in turn, so numbers of different workers may be a moment
  /// apart.
  DispatcherStats stats() const;

  /// Accepts nothing more, lets accepted tasks run for `shutdown_timeout`, then tells running
  /// handlers to stop and hands back what did not run. Tasks of paused sessions are handed back.
  /// Handlers that do not end even so are left alone on their threads. A second call returns the
  /// same report. Not to be called by a handler or callback.
  ShutdownReport shutdown();
  ShutdownReport shutdown(Duration patience);

 private:
  std::shared_ptr<Core> core_;
};

}  // namespace nimbus::dispatch
