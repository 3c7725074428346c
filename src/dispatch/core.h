#pragma once
// The dispatcher behind its public face: brings sessions, workers and the index of tasks together.
//
// Locks, in the order in which they may be taken: shutdown, dependencies, the sweep, a stripe of
// the session table, placement, a worker, a stripe of the index. The others (the supervisor's, a
// room's, the session store's, and those of who waits for ends or for quiet) are held for a moment,
// and nothing is locked under them. A submit to a session that is there takes none.

#include "dispatch/dependencies.h"
#include "dispatch/job_index.h"
#include "dispatch/placement.h"
#include "dispatch/session_table.h"
#include "dispatch/supervisor.h"
#include "dispatch/worker.h"

#include <nimbus/dispatch/dispatcher.h>

#include <any>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nimbus::dispatch {

class Core final : public WorkerHost, public std::enable_shared_from_this<Core> {
 public:
  Core(DispatcherConfig config, Dispatcher::Handler handler,
       Dispatcher::AsyncHandler async_handler);
  ~Core() override;

  void start();

  void onResult(Dispatcher::ResultCallback callback);
  void onError(Dispatcher::ResultCallback callback);

  // noexcept: what only a lack of memory could interrupt ends the process instead.
  SubmitStatus submit(Task& task, std::optional<Duration> patience) noexcept;
  std::vector<SubmitStatus> submitBatch(std::vector<Task>& tasks) noexcept;

  std::optional<TaskResult> result(std::string_view task_id);
  std::optional<TaskResult> wait(std::string_view task_id, Duration patience);
  TaskStatus status(std::string_view task_id);
  bool cancel(std::string_view task_id) noexcept;

  void pause(std::string_view session_id) noexcept;
  void resume(std::string_view session_id) noexcept;
  bool drain(std::string_view session_id, Duration patience) noexcept;
  std::optional<SessionStats> session(std::string_view session_id);

  void resize(std::size_t pool_size);
  void run(std::size_t worker);
  void setQueueSize(std::size_t queue_size);
  DispatcherStats stats();
  ShutdownReport shutdown(Duration patience);

  const DispatcherConfig& config() const override { return config_; }

 private:
  // Callbacks as they were set at some time. Kept until the end, so that readers need no lock.
  struct Callbacks {
    Dispatcher::ResultCallback result;
    Dispatcher::ResultCallback error;
  };
  // Where to wait for room, and in which line.
  struct Full {
    Room* room = nullptr;
    std::uint64_t line = Room::kForTheWorker;
    bool operator==(const Full&) const = default;
  };
  struct Group;  // the tasks of a batch that name one session

  // WorkerHost
  std::optional<TaskOutcome> call(Job& job) override;
  bool listens() const override { return listens_.load(std::memory_order_relaxed); }
  void concluded(Job& job, bool awaited) override;
  void discard(Job* chain, std::vector<std::any>& values, Spent& spent) override;
  void deadlineAdded(Instant at) override { supervisor_->notice(at); }
  void emptied() override;
  void log(const LogEvent& event) const override;

  TaskOutcome runHandler(Job& job);
  std::optional<TaskOutcome> runFlight(Job& job);
  void setCallbacks(const std::function<void(Callbacks&)>& change);
  // Calls `tell`; what that throws is logged.
  template <typename Tell>
  void report(const Job& job, Tell&& tell) const;
  void logEnd(const Job& job) const;

  // Dependencies that had ended when they were looked at, and whether they succeeded.
  using Ended = std::unordered_map<std::string, bool>;
  // For tasks with dependencies, whose lock is held. `accepted_by` is set on success, for the log.
  struct InOrder {
    const Ended* ended = nullptr;
    const Worker** accepted_by = nullptr;
  };
  // `full`: what to wait for.
  SubmitStatus accept(Task& task, Full& full, bool polite, InOrder in_order);
  SubmitStatus acceptInOrder(Task& task, Full& full, bool polite);
  bool logsAccepted() const { return config_.log && config_.log_level <= LogLevel::Debug; }
  void logAccepted(const Worker& worker, std::string_view session_id,
                   std::string_view task_id) const;
  // How a session that is not there begins: behind those who wait for that, at once if there is
  // room, or in any case.
  enum class Entry : std::uint8_t { Polite, Ordinary, Forced };
  Session* sessionOf(const SessionTable::Visit& visit, Entry entry);
  Worker* place(const SessionTable::Visit& visit, Entry entry);
  SubmitStatus checkDependencies(const Task& task, Ended& ended);
  bool isKnown(const std::string& task_id, Ended& ended);
  void linkDependencies(Job& job, const Ended& ended);
  static void takeBack(Task& task, Job& job);
  static void stamp(Job& job, Instant now);

  void prepare(Group& group, std::vector<Task>& tasks);
  static void refuse(Group& group, SubmitStatus status, std::vector<Task>& tasks);
  void discardRefused(std::deque<Group>& groups);
  static void deliver(Group& group);

  void tellToStop(std::vector<std::stop_source>& handlers) const;
  Instant attend(Instant now);
  Duration sweepPeriod() const;
  Instant sweepIfDue(Instant now) noexcept;
  void sweep(Instant now);
  bool anyoneLeaves();
  std::vector<Worker*> allWorkers();
  bool waitUntilQuiet(Instant until, const std::function<void()>& look);
  ShutdownReport end(Duration patience);

  const DispatcherConfig config_;
  const Dispatcher::Handler handler_;
  const Dispatcher::AsyncHandler async_handler_;
  const std::uint64_t seed_;

  SessionTable sessions_;
  JobIndex index_;
  const IdleTime idle_time_;
  Dependencies dependencies_;
  std::atomic<bool> stopping_ = false;
  Room session_room_;  // waits for a session to be forgotten

  std::mutex placement_mutex_;
  std::deque<Worker> workers_;  // never shrinks: sessions and jobs point to them
  std::size_t pool_size_ = 0;   // the first ones take new sessions
  std::size_t queue_size_ = 0;  // of workers that are yet to come
  std::unique_ptr<Placer> placer_;

  std::mutex callbacks_mutex_;
  std::vector<std::unique_ptr<const Callbacks>> all_callbacks_;
  std::atomic<const Callbacks*> callbacks_ = nullptr;
  std::atomic<bool> listens_ = false;

  std::mutex ends_mutex_;
  std::condition_variable ends_;  // of tasks that somebody awaits

  std::mutex quiet_mutex_;
  std::condition_variable quiet_;
  std::uint64_t times_emptied_ = 0;

  std::mutex sweep_mutex_;
  Instant next_sweep_;

  std::mutex shutdown_mutex_;
  std::optional<ShutdownReport> report_;

  std::unique_ptr<Supervisor> supervisor_;
};

}  // namespace nimbus::dispatch
