#include "dispatch/worker.h"

#include <algorithm>
#include <cmath>
#include <system_error>
#include <utility>

namespace nimbus::dispatch {
namespace {

void pauseProcessor() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

TaskError stopError(StopCause cause) {
  if (cause == StopCause::Timeout) {
    return {TaskError::Code::TimedOut, "the handler did not end in time"};
  }
  if (cause == StopCause::Cancel) return {TaskError::Code::Cancelled, "cancelled while it ran"};
  return {TaskError::Code::Cancelled, "stopped by the shutdown while it ran"};
}

}  // namespace

Worker::Worker(WorkerHost& host, std::size_t number)
    : host_(host),
      config_(host.config()),
      idle_time_(config_.session_idle_time),
      spin_(std::clamp<Duration>(config_.spin, Duration::zero(), std::chrono::seconds(1))),
      number_(number),
      id_("worker-" + std::to_string(number)),
      queue_size(config_.queue_size),
      now_(Clock::now()),
      random_(static_cast<unsigned>(number) + 1) {}

Worker::~Worker() {
  abandonThreads();
}

// ---- Submitting

bool Worker::reserve(std::uint32_t tasks) {
  const auto limit = static_cast<std::int64_t>(queue_size.load(std::memory_order_relaxed));
  const auto fits = [&] {
    std::int64_t taken = queued_.load(std::memory_order_relaxed);
    do {
      if (limit != 0 && taken + tasks > limit) return false;
    } while (!queued_.compare_exchange_weak(taken, taken + tasks, std::memory_order_acq_rel,
                                            std::memory_order_relaxed));
    return true;
  };
  if (fits()) return true;
  const Lock lock(mutex_);  // who makes room holds it, too, and looks for those who wait
  if (released_ != 0) flushReleased();
  return fits();
}

void Worker::giveBack(std::uint32_t tasks) {
  queued_.fetch_sub(tasks, std::memory_order_acq_rel);
  if (room_.isAwaited()) room_.made();
}

void Worker::turnAway(Session& session, std::uint32_t tasks) {
  if (config_.session_queue_size == 0) return;
  session.leave(tasks);
  if (room_.isAwaited()) room_.made();
}

void Worker::wake() {
  if (!hasOwnThread()) return config_.schedule(number_);
  wakes_.fetch_add(1, std::memory_order_release);
  wakes_.notify_one();
}

void Worker::flushReleased() {
  queued_.fetch_sub(std::exchange(released_, 0), std::memory_order_acq_rel);
  if (room_.isAwaited()) room_.made();
}

// ---- Threads

void Worker::enlist(std::shared_ptr<void> keep) {
  const Lock lock(mutex_);
  leaving_.store(false, std::memory_order_relaxed);
  if (has_thread_) return;
  if (hasOwnThread()) {
    startThread(std::move(keep));
  } else {
    has_thread_ = true;
    if (!inbox_.fallAsleep()) wake();  // whoever comes first wakes it
  }
}

// Throws std::system_error if there is no thread to be had; then nothing has changed.
void Worker::startThread(std::shared_ptr<void> keep) {
  const std::uint64_t number = runner_ + 1;
  threads_.reserve(threads_.size() + 1);
  auto ended = std::make_shared<std::atomic<bool>>(false);
  std::thread thread([this, number, ended, keep = std::move(keep)]() mutable {
    run(number);
    ended->store(true, std::memory_order_release);
    keep.reset();
  });
  threads_.push_back({std::move(thread), std::move(ended)});
  has_thread_ = true;
  runner_ = number;
}

void Worker::dismiss() {
  const Lock lock(mutex_);
  leaving_.store(true, std::memory_order_relaxed);
  rouse();
}

void Worker::reconsider() {
  const Lock lock(mutex_);
  if (mayLeave()) rouse();
}

void Worker::end() {
  const Lock lock(mutex_);
  ending_ = true;
  rouse();
}

void Worker::joinThreads(Wait wait) {
  std::vector<Thread> ended;
  {
    const Lock lock(mutex_);
    const auto gone = [&](const Thread& thread) {
      return wait == Wait::ForAll || thread.ended->load(std::memory_order_acquire);
    };
    const auto kept = std::partition(threads_.begin(), threads_.end(), std::not_fn(gone));
    std::move(kept, threads_.end(), std::back_inserter(ended));
    threads_.erase(kept, threads_.end());
  }
  for (Thread& thread : ended) thread.thread.join();
}

void Worker::abandonThreads() {
  joinThreads(Wait::No);
  const Lock lock(mutex_);
  for (Thread& thread : threads_) thread.thread.detach();
  threads_.clear();
}

bool Worker::mayLeave() const {
  if (unfinished_ != 0) return false;
  return ending_ || (isLeaving() && !hasSessions());
}

void Worker::run(std::uint64_t number) {
  Runner runner{.number = number};
  host_.log({.level = LogLevel::Info, .what = "worker started", .worker_id = id_});
  Lock lock(mutex_);
  now_ = Clock::now();
  while (isRunner(runner)) {
    if (step(runner, lock)) continue;
    if (mayLeave()) {
      has_thread_ = false;
      break;
    }
    sleep(runner, lock);
  }
  lock.unlock();
  letGo(runner.leavings);
  host_.log({.level = LogLevel::Info, .what = "worker stopped", .worker_id = id_});
}

bool Worker::step(Runner& runner, Lock& lock) {
  if (runner.leavings.heavy) {  // not on any task's time
    lock.unlock();
    letGo(runner.leavings);
    lock.lock();
    now_ = Clock::now();
    return true;
  }
  if (since_drain_ >= kDrainEvery || now_ >= next_drain_) drainInbox();
  Line* line = nextLine();
  if (line == nullptr) {
    drainInbox();
    line = nextLine();
  }
  if (line == nullptr) return false;
  serve(*line, runner, lock);
  return true;
}

void Worker::runSome() {
  Lock lock(mutex_);
  now_ = Clock::now();
  const Instant until = after(now_, kVisit);
  bool more = true;
  while (more && now_ < until) more = step(visitor_, lock);
  flushReleased();
  const bool asleep = !more && inbox_.fallAsleep();
  lock.unlock();
  letGo(visitor_.leavings);
  visitor_.leavings.spent.giveBack();
  if (!asleep) config_.schedule(number_);
}

void Worker::sleep(Runner& runner, Lock& lock) {
  flushReleased();
  // Spinning pays only where something usually comes in that time.
  const Duration patience = usual_gap_ <= spin_ ? spin_ : Duration::zero();
  lock.unlock();
  letGo(runner.leavings);
  runner.leavings.spent.giveBack();
  const Instant idle_from = Clock::now();
  const Instant until = after(idle_from, patience);
  // Not at every moment: each look takes the inbox's cache line away from those who push.
  bool came = false;
  do {
    for (int i = 0; i < kPausesBetweenLooks; ++i) pauseProcessor();
    came = !inbox_.isEmpty();
  } while (!came && Clock::now() < until);
  lock.lock();
  const bool has_work =
      came || (!ready_.empty() && mayStartMore()) || !arrivals_.empty() || mayLeave();
  const std::uint32_t seen = wakes_.load(std::memory_order_relaxed);
  if (!has_work && inbox_.fallAsleep()) {
    lock.unlock();
    wakes_.wait(seen, std::memory_order_acquire);
    lock.lock();
  }
  now_ = Clock::now();
  idle_from_ = idle_from;
}

void Worker::letGo(Leavings& leavings) {
  if (leavings.jobs == nullptr && leavings.values.empty()) return;
  leavings.heavy = false;
  host_.discard(std::exchange(leavings.jobs, nullptr), leavings.values, leavings.spent);
}

void Worker::discardNow(Job* finished) {
  Leavings leavings;
  leavings.jobs = finished;
  letGo(leavings);
}

// ---- Turns

void Worker::drainInbox() {
  since_drain_ = 0;
  next_drain_ = now_ + kDrainAfter;
  Job* job = inbox_.takeAll();
  if (job != nullptr && job->attempts == 0 && idle_from_ != Instant()) {
    noteGap(job->submitted_at);
  }
  while (job != nullptr) {
    Job* const next = job->link;
    if (job->attempts == 0) {
      lineOf(*job->session, job->submitted_at).append(*job);
      ++unfinished_;
      ++totals_.accepted;
    } else {
      job->arrived = true;
    }
    put(*job->line);
    job = next;
  }
}

// Until something came, not until this worker was awake: where that takes long, spinning pays most.
void Worker::noteGap(Instant came) {
  const Duration gap = std::clamp<Duration>(came - std::exchange(idle_from_, Instant()),
                                            Duration::zero(), kLongGap * spin_);
  usual_gap_ += (gap - usual_gap_) / kGapsRemembered;
}

Line& Worker::lineOf(Session& session, Instant submitted_at) {
  if (Line* const line = lines_.find(session)) return *line;
  Line& line = lines_.begin(session);
  line.since = submitted_at;
  line.paused = !paused_.empty() && paused_.contains(&session);
  return line;
}

void Worker::put(Line& line) {
  if (line.ready || line.busy) return;
  if (line.head == nullptr) {
    idle_time_.noteEnd(*line.session, line.since, now_);
    lines_.end(line);
    return;
  }
  if (!mayAdvance(line)) return;
  line.ready = true;
  if (line.head->arrived) {
    arrivals_.push(line, 0);
  } else {
    ready_.push(line, line.head->priority);
  }
}

// Whether the task at the head can do something now.
bool Worker::mayAdvance(const Line& line) {
  const Job& head = *line.head;
  if (head.arrived) return true;
  return head.phase() == Phase::Queued && !line.paused &&
         head.blocked_on.load(std::memory_order_acquire) == 0;
}

bool Worker::mayStartMore() const {
  // Those that are stuck hold up their sessions, nobody else.
  return config_.max_in_flight == 0 || in_flight_ - stuck_ < config_.max_in_flight;
}

Line* Worker::nextLine() {
  const bool may_start = mayStartMore() && !ready_.empty();
  if (!may_start || arrivals_in_a_row_ < kArrivalsInARow) {
    if (Line* const arrival = arrivals_.pop()) {
      ++arrivals_in_a_row_;
      return arrival;
    }
  }
  arrivals_in_a_row_ = 0;
  return may_start ? ready_.pop() : nullptr;
}

void Worker::serve(Line& line, Runner& runner, Lock& lock) {
  line.ready = false;
  // Its tasks were cancelled, or it was paused, or who is first now waits.
  if (line.head == nullptr || !mayAdvance(line)) {
    put(line);
    return;
  }
  const Instant turn_end = after(now_, config_.quantum_time);
  std::uint32_t served = 0;
  line.busy = true;
  while (true) {
    ++since_drain_;
    ++served;
    if (!advance(*line.head, runner, lock)) return;
    const bool turn_over = served >= config_.quantum_tasks || now_ >= turn_end;
    if (turn_over || !mayAdvance(line) || !isRunner(runner)) break;
  }
  drainInbox();  // who came during this turn stands before this line's next one
  line.busy = false;
  put(line);
  if (!isRunner(runner)) rouse();
}

bool Worker::advance(Job& job, Runner& runner, Lock& lock) {
  Line& line = *job.line;
  if (!job.arrived) {
    if (job.dependency_failed) {
      ++released_;
      job.error = std::make_unique<TaskError>(TaskError{
          TaskError::Code::DependencyFailed, "a task that it depends on did not succeed"});
      publish(job, Phase::Failed, lock);
      return finish(job, runner);
    }
    start(job);
  }
  job.arrived = false;
  in_hand_ = &job;
  lock.unlock();
  if (!runner.leavings.heavy) letGo(runner.leavings);
  std::optional<TaskOutcome> outcome = host_.call(job);
  const Instant now = Clock::now();
  lock.lock();
  now_ = now;
  if (isRunner(runner)) in_hand_ = nullptr;
  if (outcome) return settle(job, *std::move(outcome), runner, lock);
  line.busy = false;
  put(line);  // its flight may want the next turn already
  if (!isRunner(runner)) rouse();
  return false;
}

void Worker::start(Job& job) {
  if (job.attempts++ == 0) {
    ++released_;
    if (released_ >= kReleaseTogether || room_.seemsAwaited()) flushReleased();
  }
  job.enter(Phase::Queued, Phase::Running);
  job.started_at = now_;
  job.stop = std::stop_source();
  job.place_in_running = static_cast<std::uint32_t>(running_jobs_.size());
  running_jobs_.push_back(&job);
  ++in_flight_;
  const Duration limit = job.has_own_timeout ? *job.task.timeout : config_.task_timeout;
  if (limit > Duration::zero()) {
    const Instant at = after(now_, limit);
    deadlines_.add(job, at);
    host_.deadlineAdded(at);
  }
}

bool Worker::hasAttemptLeft(const Job& job) const {
  const bool told_by_us = job.stop_cause == StopCause::None || job.stop_cause == StopCause::Timeout;
  return told_by_us && !no_more_tries_ && job.attempts < config_.retry.max_attempts;
}

bool Worker::settle(Job& job, TaskOutcome outcome, Runner& runner, Lock& lock) {
  Line& line = *job.line;
  if (job.stuck) tell("task unstuck", job, lock);  // it still counts as running
  deadlines_.remove(job);
  --in_flight_;
  if (!isRunner(runner)) rouse();  // it may sleep because there were too many in flight
  ++attempts_ended_;
  busy_time_ += now_ - job.started_at;
  running_jobs_.back()->place_in_running = job.place_in_running;
  std::swap(running_jobs_[job.place_in_running], running_jobs_.back());
  running_jobs_.pop_back();
  job.place_in_running = Job::kNoPlace;
  if (std::exchange(job.stuck, false)) --stuck_;

  if (job.concluding) {
    runner.leavings.add(std::move(outcome.value()));
    job.returned = true;
    line.busy = false;
    return false;
  }
  if (job.concluded) {
    runner.leavings.add(std::move(outcome.value()));
  } else {
    job.duration = now_ - job.started_at;
    const bool stopped = job.stop_cause != StopCause::None;
    Phase phase = Phase::Done;
    if (stopped || !outcome.isOk()) {
      runner.leavings.add(std::move(outcome.value()));
      if ((stopped || outcome.mayBeRetried()) && hasAttemptLeft(job)) {
        line.busy = false;
        retryLater(job);
        if (line.paused) host_.emptied();
        tell("task retried", job, lock);
        return false;
      }
      job.error = std::make_unique<TaskError>(stopped ? stopError(job.stop_cause)
                                                      : *std::move(outcome.error()));
      const bool cancelled = stopped && job.stop_cause != StopCause::Timeout;
      phase = cancelled ? Phase::Cancelled : Phase::Failed;
    } else {
      job.value = std::move(outcome.value());
    }
    publish(job, phase, lock);
  }
  return finish(job, runner);
}

bool Worker::finish(Job& job, Runner& runner) {
  Line& line = *job.line;
  line.unlink(job);
  release(job, runner.leavings);
  if (line.head != nullptr) return true;
  line.busy = false;
  put(line);
  return false;
}

void Worker::retryLater(Job& job) {
  const RetryPolicy& policy = config_.retry;
  const double growth = std::pow(std::max(policy.factor, 1.0), job.attempts - 1);
  const double longest = static_cast<double>(policy.max_backoff.count());
  const double pause = std::min(static_cast<double>(policy.backoff.count()) * growth, longest);
  const double extra = std::uniform_real_distribution<>(0, policy.jitter)(random_);
  constexpr double kLongest = 9e18;  // about what a Duration can say
  const Instant at =
      after(now_, Duration(static_cast<Duration::rep>(std::min(pause * (1 + extra), kLongest))));
  job.stop_cause = StopCause::None;
  job.enter(Phase::Running, Phase::Backoff);
  deadlines_.add(job, at);
  host_.deadlineAdded(at);
  ++totals_.retries;
}

// The job may be gone when the lock is held again.
void Worker::tell(std::string_view what, const Job& job, Lock& lock) {
  if (!host_.listens()) return;
  const std::string session_id = job.task.session_id;
  const std::string task_id = job.task.id;
  const std::string detail = job.error ? job.error->message : std::string();
  lock.unlock();
  host_.log({.level = LogLevel::Warning,
             .what = what,
             .worker_id = id_,
             .session_id = session_id,
             .task_id = task_id,
             .detail = detail});
  lock.lock();
}

// The end is visible, and told to whoever waits for it, before the next task of the session starts.
void Worker::publish(Job& job, Phase phase, Lock& lock) {
  if (job.attempts != 0) ++processed_;
  if (phase == Phase::Done) ++totals_.completed;
  if (phase == Phase::Failed) ++totals_.failed;
  if (phase == Phase::Cancelled) ++totals_.cancelled;
  if (phase == Phase::NotRun) ++totals_.not_run;
  job.finished_at = now_;
  const bool awaited = job.end(phase);
  if (!awaited && !host_.listens() && !job.has_dependencies) return;
  lock.unlock();
  host_.concluded(job, awaited);
  lock.lock();
  now_ = Clock::now();  // callbacks take their time
}

// The job has left its line.
void Worker::release(Job& job, Leavings& leavings) {
  if (config_.session_queue_size != 0) {
    job.session->leave(1);
    if (room_.isAwaited()) room_.made();
  }
  keepResult(job, leavings);
  if (--unfinished_ == 0) {
    host_.emptied();
    if (ending_) rouse();  // the runner may be asleep, if this is another thread
  }
  if (waiting_for_end_ != 0) ended_.notify_all();
}

void Worker::keepResult(Job& job, Leavings& leavings) {
  job.link = nullptr;
  if (!job.is_named || config_.max_results == 0) {
    leavings.heavy |= job.holds_memory || job.value.has_value();
    job.link = std::exchange(leavings.jobs, &job);
    return;
  }
  leavings.add(std::move(job.task.payload));
  if (newest_result_ == nullptr) {
    oldest_result_ = &job;
    host_.deadlineAdded(after(now_, config_.result_retention));
  } else {
    newest_result_->link = &job;
  }
  newest_result_ = &job;
  ++results_;
  dropOldResults(now_, leavings.jobs);
  leavings.heavy |= leavings.jobs != nullptr;
}

void Worker::dropOldResults(Instant now, Job*& finished) {
  while (oldest_result_ != nullptr) {
    const bool too_many = results_ > config_.max_results;
    if (!too_many && after(oldest_result_->finished_at, config_.result_retention) > now) break;
    Job* const old = oldest_result_;
    oldest_result_ = old->link;
    if (oldest_result_ == nullptr) newest_result_ = nullptr;
    --results_;
    old->link = std::exchange(finished, old);
  }
}

// The handler was told to stop, and has not within its grace. Its task has ended for everybody but
// its session, which waits for it.
void Worker::overrun(Job& job, const std::shared_ptr<void>& keep, Lock& lock) {
  if (!std::exchange(job.stuck, true)) ++stuck_;
  if (in_hand_ == &job && hasOwnThread()) {
    try {
      startThread(keep);
      in_hand_ = nullptr;
    } catch (const std::system_error&) {
      const Instant again = after(now_, kTryAgain);  // its sessions wait until there is a thread
      deadlines_.add(job, again);
      host_.deadlineAdded(again);
      return;
    }
  }
  if (hasAttemptLeft(job)) {
    tell("task stuck", job, lock);
    return;
  }
  job.concluded = true;
  job.concluding = true;
  job.duration = now_ - job.started_at;
  job.error = std::make_unique<TaskError>(stopError(job.stop_cause));
  const bool failed = job.stop_cause == StopCause::Timeout;
  publish(job, failed ? Phase::Failed : Phase::Cancelled, lock);
  tell("task stuck", job, lock);
  job.concluding = false;
  if (!job.returned) return;
  Leavings leavings;
  takeOut(job, leavings);
  rouse();
  lock.unlock();
  letGo(leavings);
  lock.lock();
}

// Takes a task out of its line that nobody serves now.
void Worker::takeOut(Job& job, Leavings& leavings) {
  Line& line = *job.line;
  line.unlink(job);
  release(job, leavings);
  put(line);
}

}  // namespace nimbus::dispatch
