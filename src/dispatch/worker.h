#pragma once
// A worker: the sessions that were given to it, and the thread that serves them.
//
// Submitters reach it through its inbox, without a lock. Everything else is guarded by its mutex,
// which is held for bookkeeping only: never while a handler, a callback or a destructor of the
// user's runs. One thread at a time is its runner. If a handler overruns its time on it, another
// thread becomes the runner, and the old one ends when its handler returns.

#include "dispatch/deadlines.h"
#include "dispatch/inbox.h"
#include "dispatch/job_shelf.h"
#include "dispatch/line.h"
#include "dispatch/pins.h"
#include "dispatch/ready_lines.h"
#include "dispatch/room.h"

#include <nimbus/dispatch/config.h>
#include <nimbus/dispatch/stats.h>

#include <any>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_set>
#include <vector>

namespace nimbus::dispatch {

// What a worker needs from its dispatcher. Called without the worker's mutex unless it says so.
class WorkerHost {
 public:
  virtual ~WorkerHost() = default;

  virtual const DispatcherConfig& config() const = 0;

  // Runs the handler, or what its coroutine left to do. Nothing if that waits again.
  virtual std::optional<TaskOutcome> call(Job& job) = 0;

  // Whether concluded() wants to hear of every end, not only of those that somebody awaits. Under
  // the mutex.
  virtual bool listens() const = 0;
  virtual void concluded(Job& job, bool awaited) = 0;

  // These have ended and left their lines, and their results are not kept any longer. What can be
  // used again is added to `spent`. The values go too.
  virtual void discard(Job* chain, std::vector<std::any>& values, Spent& spent) = 0;

  // Somebody must look at this worker (attend()) at `at`. Under the mutex.
  virtual void deadlineAdded(Instant at) = 0;

  // The worker has no unfinished task, or one of a paused session that is to be tried again: a
  // shutdown looks at it. Under the mutex.
  virtual void emptied() = 0;

  virtual void log(const LogEvent& event) const = 0;
};

struct WorkerTotals {
  std::uint64_t accepted = 0;
  std::uint64_t completed = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint64_t not_run = 0;
  std::uint64_t retries = 0;
};

class Worker {
 public:
  Worker(WorkerHost& host, std::size_t number);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  const std::string& id() const { return id_; }

  // ---- Submitting: any thread, no lock unless the queue looks full.

  // Takes places in the queue, to be filled by deliver() or given back.
  bool reserve(std::uint32_t tasks);
  void giveBack(std::uint32_t tasks);
  // Whether the session has room for more, if that is bounded; they are counted then.
  bool admit(Session& session, std::uint32_t tasks,
             std::optional<std::uint32_t> limit = std::nullopt) const {
    return config_.session_queue_size == 0 ||
           session.admit(tasks, limit ? *limit : config_.session_queue_size);
  }
  // They were admitted, and are not accepted after all.
  void turnAway(Session& session, std::uint32_t tasks);

  // A chain of new jobs (newest first), or one whose flight wants a turn.
  void deliver(Job& newest, Job& oldest) {
    if (inbox_.push(newest, oldest)) wake();
  }

  Room& room() { return room_; }
  std::atomic<std::size_t>& sessions() { return sessions_; }
  bool hasSessions() const { return sessions_.load(std::memory_order_acquire) != 0; }
  bool isLeaving() const { return leaving_.load(std::memory_order_relaxed); }

  // ---- Control: any thread.

  // Serves what is ready, on a thread of the user's; for DispatcherConfig::schedule.
  void runSome();

  // Starts the thread, or lets one that is about to leave stay. `keep` lives as long as the thread.
  void enlist(std::shared_ptr<void> keep);
  // The thread ends when its sessions are gone (dismiss) or it has no unfinished task (end).
  void dismiss();
  // Its sessions may be gone: it may be asleep and not know.
  void reconsider();
  void end();
  // Joins the threads that have ended; with Wait::ForAll, the others too.
  enum class Wait : std::uint8_t { No, ForAll };
  void joinThreads(Wait wait);
  // Threads that have not ended are left to themselves.
  void abandonThreads();

  // A handler that must be told to stop is told by the caller.
  bool cancel(Job& job, std::vector<std::stop_source>& to_stop);
  // Whether it stands in its line, or has left it.
  bool hasPlace(const Job& job);
  // One of the tasks that `job` depends on has ended.
  void unblock(Job& job);

  void setPaused(Session& session, bool paused);
  bool isPaused(const Session& session);
  std::size_t unfinishedOf(const Session& session);
  // True if the session has no unfinished task. If it has, waits until some task has ended, or
  // until `until`. `looked` is called when the session is not needed any more, before the wait.
  bool waitForEnd(const Session& session, Instant until, const std::function<void()>& looked);
  // Takes the mark from those that have tasks here, or are paused: they are not to be forgotten.
  void keepNeeded(const std::vector<Session*>& retiring);

  // What is due now: timeouts, further attempts, old results. Returns when to come again. Handlers
  // that must be told to stop are told by the caller.
  Instant attend(Instant now, std::shared_ptr<void> keep, std::vector<std::stop_source>& to_stop);

  // Takes tasks that have not started out of their lines.
  enum class From : std::uint8_t { All, PausedSessions };
  void takeUnstarted(From from, std::vector<Task>& taken);
  void endRetries();
  // Tells everything that runs to stop.
  void stopRunning(std::vector<std::stop_source>& to_stop);
  bool hasUnfinished();
  void namesOfRunning(std::vector<std::string>& names);

  WorkerStats stats(WorkerTotals& totals);

 private:
  using Lock = std::unique_lock<std::mutex>;

  // What somebody has finished with, and lets go when no lock is held.
  struct Leavings {
    Job* jobs = nullptr;
    std::vector<std::any> values;
    bool heavy = false;  // something of the user's: destroying it may take any time
    Spent spent;

    void add(std::any&& value) {
      if (!value.has_value()) return;
      values.push_back(std::move(value));
      value.reset();
      heavy = true;
    }
  };
  struct Runner {
    std::uint64_t number = 0;
    Leavings leavings = {};
  };
  struct Thread {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> ended;
  };

  static constexpr std::uint32_t kReleaseTogether = 32;
  static constexpr int kPausesBetweenLooks = 8;
  // How soon a worker learns that it pays to spin, or does not.
  static constexpr int kGapsRemembered = 4;
  static constexpr int kLongGap = 8;  // in spins
  // Arrivals go before lines that have yet to start something, but not always.
  static constexpr unsigned kArrivalsInARow = 8;
  static constexpr Duration kTryAgain = std::chrono::milliseconds(10);
  // How long the inbox may wait while there is other work: so many tasks, so much time.
  static constexpr std::uint32_t kDrainEvery = 32;
  static constexpr Duration kDrainAfter = std::chrono::microseconds(50);
  // How long a worker holds a thread that is not its own.
  static constexpr Duration kVisit = std::chrono::microseconds(500);

  void wake();
  void rouse() {
    if (inbox_.rouse()) wake();
  }
  void startThread(std::shared_ptr<void> keep);

  void run(std::uint64_t number);
  // Serves a line, or lets go of what was left over. False: there was nothing to do.
  bool step(Runner& runner, Lock& lock);
  bool hasOwnThread() const { return !config_.schedule; }
  bool isRunner(const Runner& runner) const { return runner.number == runner_; }
  bool mayLeave() const;
  void sleep(Runner& runner, Lock& lock);
  void letGo(Leavings& leavings);
  bool mayStartMore() const;
  Line* nextLine();
  void serve(Line& line, Runner& runner, Lock& lock);

  // Whoever holds the mutex may do it. A runner that is awake looks at the lines before it sleeps,
  // and while it sleeps there is nothing in the inbox.
  void drainInbox();
  void noteGap(Instant came);
  Line& lineOf(Session& session, Instant submitted_at);
  // Puts a line where it belongs: among the ready ones; nowhere, while it waits; away, when empty.
  void put(Line& line);
  static bool mayAdvance(const Line& line);
  void start(Job& job);
  // True: the line may go on at once. Otherwise it was put where it belongs, and may be gone.
  bool advance(Job& job, Runner& runner, Lock& lock);
  bool settle(Job& job, TaskOutcome outcome, Runner& runner, Lock& lock);
  void tell(std::string_view what, const Job& job, Lock& lock);
  void publish(Job& job, Phase phase, Lock& lock);
  bool finish(Job& job, Runner& runner);
  void release(Job& job, Leavings& leavings);
  void takeOut(Job& job, Leavings& leavings);
  void keepResult(Job& job, Leavings& leavings);
  void dropOldResults(Instant now, Job*& finished);
  void retryLater(Job& job);
  void overrun(Job& job, const std::shared_ptr<void>& keep, Lock& lock);
  bool hasAttemptLeft(const Job& job) const;
  void flushReleased();
  void discardNow(Job* finished);
  static Job* firstUnstarted(const Line& line);

  WorkerHost& host_;
  const DispatcherConfig& config_;
  const IdleTime idle_time_;
  const Duration spin_;
  const std::size_t number_;
  const std::string id_;

  alignas(kCacheLine) Inbox inbox_;
  std::atomic<std::uint32_t> wakes_ = 0;  // what the runner sleeps on
  std::atomic<std::int64_t> queued_ = 0;  // places taken; those of started tasks come back in bulk

 public:
  std::atomic<std::size_t> queue_size = 0;  // 0: no bound

 private:
  alignas(kCacheLine) std::atomic<std::size_t> sessions_ = 0;
  std::atomic<bool> leaving_ = false;
  Room room_;

  alignas(kCacheLine) std::mutex mutex_;
  unsigned arrivals_in_a_row_ = 0;
  Lines lines_;
  ReadyLines ready_;
  ReadyLines arrivals_;  // those whose flight wants a turn
  std::unordered_set<const Session*> paused_;
  Deadlines deadlines_;
  Instant now_;              // as of the last look at the clock
  Instant idle_from_;        // when it ran out of work, if nothing came since
  Duration usual_gap_ = {};  // from then until something comes
  std::uint64_t runner_ = 0;
  Runner visitor_;  // for runSome()
  bool has_thread_ = false;
  bool ending_ = false;           // leave when nothing is unfinished
  bool no_more_tries_ = false;    // a shutdown has lost patience
  const Job* in_hand_ = nullptr;  // what the runner's thread is in right now
  std::uint32_t released_ = 0;
  std::uint32_t since_drain_ = 0;
  Instant next_drain_;
  std::size_t unfinished_ = 0;
  std::size_t in_flight_ = 0;
  std::size_t stuck_ = 0;
  std::vector<Job*> running_jobs_;
  std::uint64_t attempts_ended_ = 0;
  std::uint64_t processed_ = 0;
  Duration busy_time_ = {};
  WorkerTotals totals_;
  Job* oldest_result_ = nullptr;
  Job* newest_result_ = nullptr;
  std::size_t results_ = 0;
  std::size_t waiting_for_end_ = 0;
  std::condition_variable ended_;
  std::minstd_rand random_;
  std::vector<Thread> threads_;
};

}  // namespace nimbus::dispatch
