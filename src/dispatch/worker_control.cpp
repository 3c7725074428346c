// What others ask of a worker: its dispatcher, its supervisor, and whoever asks about a task or a
// session. How tasks run is in worker.cpp.

#include "dispatch/worker.h"

#include <algorithm>
#include <utility>

namespace nimbus::dispatch {

bool Worker::cancel(Job& job, std::vector<std::stop_source>& to_stop) {
  Lock lock(mutex_);
  drainInbox();
  rouse();
  const Phase phase = job.phase();
  if (isFinal(phase) || job.line == nullptr) return false;  // ended, or its submit has not
  if (phase == Phase::Running) {
    now_ = Clock::now();
    if (job.stop_cause == StopCause::Timeout && hasAttemptLeft(job)) {
      job.stop_cause = StopCause::Cancel;
      if (job.stuck) {  // its grace is over: it has ended for everybody but its session
        deadlines_.add(job, now_);
        host_.deadlineAdded(now_);
      }
      return true;
    }
    if (job.stop_cause != StopCause::None) return job.stop_cause == StopCause::Cancel;
    job.stop_cause = StopCause::Cancel;
    job.overdue_since = now_;
    const Instant at = after(now_, config_.stop_grace);
    deadlines_.remove(job);
    deadlines_.add(job, at);
    host_.deadlineAdded(at);
    to_stop.push_back(job.stop);
    return true;
  }
  now_ = Clock::now();
  if (job.attempts == 0) ++released_;
  deadlines_.remove(job);
  job.error =
      std::make_unique<TaskError>(TaskError{TaskError::Code::Cancelled, "cancelled before it ran"});
  // It keeps its place until everybody was told: nobody behind it starts before.
  publish(job, Phase::Cancelled, lock);
  Leavings leavings;
  takeOut(job, leavings);
  flushReleased();
  rouse();
  lock.unlock();
  letGo(leavings);
  return true;
}

bool Worker::hasPlace(const Job& job) {
  const Lock lock(mutex_);
  drainInbox();
  return isFinal(job.phase()) || job.line != nullptr;
}

void Worker::unblock(Job& job) {
  const Lock lock(mutex_);
  job.blocked_on.fetch_sub(1, std::memory_order_acq_rel);
  // Cancelled, it has left its line, and does not stand in its session's way.
  if (job.line != nullptr) put(*job.line);
  rouse();
}

void Worker::setPaused(Session& session, bool paused) {
  const Lock lock(mutex_);
  if (paused) {
    paused_.insert(&session);
  } else {
    paused_.erase(&session);
    idle_time_.noteUse(session, Clock::now());
  }
  Line* const line = lines_.find(session);
  if (line == nullptr) return;
  line->paused = paused;
  put(*line);
  rouse();
}

bool Worker::isPaused(const Session& session) {
  const Lock lock(mutex_);
  return paused_.contains(&session);
}

std::size_t Worker::unfinishedOf(const Session& session) {
  const Lock lock(mutex_);
  drainInbox();
  const Line* const line = lines_.find(session);
  return line != nullptr ? line->size : 0;
}

bool Worker::waitForEnd(const Session& session, Instant until,
                        const std::function<void()>& looked) {
  Lock lock(mutex_);
  drainInbox();
  const Line* const line = lines_.find(session);
  const bool done = line == nullptr || line->head == nullptr;
  looked();
  if (done) return true;
  ++waiting_for_end_;
  ended_.wait_until(lock, until);
  --waiting_for_end_;
  return false;
}

void Worker::keepNeeded(const std::vector<Session*>& retiring) {
  const Lock lock(mutex_);
  drainInbox();
  for (Session* const session : retiring) {
    if (session->worker != this) continue;
    if (lines_.find(*session) == nullptr && !paused_.contains(session)) continue;
    session->retiring.store(false, std::memory_order_relaxed);
  }
}

Instant Worker::attend(Instant now, std::shared_ptr<void> keep,
                       std::vector<std::stop_source>& to_stop) {
  Lock lock(mutex_);
  now_ = std::max(now_, now);
  while (Job* const job = deadlines_.takeDue(now)) {
    if (job->phase() == Phase::Backoff) {
      job->enter(Phase::Backoff, Phase::Queued);
      put(*job->line);
      rouse();
    } else if (job->stop_cause == StopCause::None) {
      job->stop_cause = StopCause::Timeout;
      job->overdue_since = now;
      to_stop.push_back(job->stop);
      deadlines_.add(*job, after(now, config_.stop_grace));
    } else {
      overrun(*job, keep, lock);
    }
  }
  Job* finished = nullptr;
  dropOldResults(now, finished);
  Instant next = deadlines_.earliest();
  if (oldest_result_ != nullptr) {
    next = std::min(next, after(oldest_result_->finished_at, config_.result_retention));
  }
  lock.unlock();
  discardNow(finished);
  joinThreads(Wait::No);
  return next;
}

// Before it there may be one that has started, and some that were cancelled a moment ago.
Job* Worker::firstUnstarted(const Line& line) {
  Job* job = line.head;
  if (job == nullptr) return nullptr;
  do {
    if (job->phase() == Phase::Queued || job->phase() == Phase::Backoff) return job;
    job = job->next;
  } while (job != line.head);
  return nullptr;
}

// For a shutdown: no session is forgotten any more.
void Worker::takeUnstarted(From from, std::vector<Task>& taken) {
  Lock lock(mutex_);
  drainInbox();
  // All at once: publish() lets go of the mutex, and none may start whose predecessor was taken.
  std::vector<Job*> jobs;
  std::vector<Line*> touched;
  lines_.forEach([&](Line& line) {
    if (from == From::PausedSessions && !line.paused) return;
    touched.push_back(&line);
    while (Job* const job = firstUnstarted(line)) {
      deadlines_.remove(*job);
      line.unlink(*job);
      jobs.push_back(job);
    }
  });
  for (Line* const line : touched) put(*line);
  Leavings leavings;
  for (Job* const job : jobs) {
    if (job->attempts == 0) ++released_;
    std::any payload = std::move(job->task.payload);
    // One that has been tried was the first of its line, also if the others were taken before.
    const auto place = job->attempts == 0
                           ? taken.end()
                           : std::find_if(taken.begin(), taken.end(), [&](const Task& other) {
                               return other.session_id == job->task.session_id;
                             });
    // A copy: readers of results may look at its names.
    taken.insert(place, job->task)->payload = std::move(payload);
    job->error = std::make_unique<TaskError>(
        TaskError{TaskError::Code::Cancelled, "not run because of the shutdown"});
    publish(*job, Phase::NotRun, lock);
    release(*job, leavings);
  }
  flushReleased();
  lock.unlock();
  letGo(leavings);
}

void Worker::endRetries() {
  const Lock lock(mutex_);
  no_more_tries_ = true;
}

void Worker::stopRunning(std::vector<std::stop_source>& to_stop) {
  const Lock lock(mutex_);
  drainInbox();
  for (Job* const job : running_jobs_) {
    if (job->stop_cause != StopCause::None) continue;
    job->stop_cause = StopCause::Shutdown;
    job->overdue_since = Clock::now();
    to_stop.push_back(job->stop);
  }
}

bool Worker::hasUnfinished() {
  const Lock lock(mutex_);
  drainInbox();
  return unfinished_ != 0;
}

void Worker::namesOfRunning(std::vector<std::string>& names) {
  const Lock lock(mutex_);
  for (const Job* const job : running_jobs_) names.push_back(job->task.id);
}

WorkerStats Worker::stats(WorkerTotals& totals) {
  const Lock lock(mutex_);
  drainInbox();
  const Instant now = Clock::now();
  WorkerStats stats;
  stats.worker_id = id_;
  stats.session_count = sessions_.load(std::memory_order_relaxed);
  stats.tasks_processed = processed_;
  stats.tasks_failed = totals_.failed;
  if (attempts_ended_ != 0) stats.avg_task_duration = busy_time_ / attempts_ended_;
  const std::int64_t queued = queued_.load(std::memory_order_relaxed) - released_;
  stats.queue_length = static_cast<std::size_t>(std::max<std::int64_t>(queued, 0));
  stats.queue_capacity = queue_size.load(std::memory_order_relaxed);
  stats.running_tasks = running_jobs_.size();
  stats.stuck_tasks = stuck_;
  for (const Job* const job : running_jobs_) {
    if (job->stuck) stats.stuck_time = std::max(stats.stuck_time, now - job->overdue_since);
  }
  if (const Line* const next = ready_.peek(); next != nullptr && next->head != nullptr) {
    stats.queue_age = now - next->head->submitted_at;
  }
  stats.leaving = isLeaving();
  totals.accepted += totals_.accepted;
  totals.completed += totals_.completed;
  totals.failed += totals_.failed;
  totals.cancelled += totals_.cancelled;
  totals.not_run += totals_.not_run;
  totals.retries += totals_.retries;
  return stats;
}

}  // namespace nimbus::dispatch
