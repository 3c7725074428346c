#include "dispatch/core.h"

#include "dispatch/job_shelf.h"

#include <algorithm>
#include <exception>
#include <random>
#include <thread>
#include <unordered_set>
#include <utility>

namespace nimbus::dispatch {
namespace {

// What this thread is in the middle of.
thread_local const Core* t_inside = nullptr;  // user code of this dispatcher
thread_local const Job* t_flight = nullptr;   // a coroutine that it started or resumed
thread_local bool t_flight_landed = false;    // which ended meanwhile

template <typename T>
class Setting {
 public:
  Setting(T& variable, T value) : variable_(variable), before_(std::exchange(variable, value)) {}
  ~Setting() { variable_ = before_; }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;

 private:
  T& variable_;
  T before_;
};

std::uint64_t randomSeed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32U) | device();
}

std::size_t workersFor(std::size_t wanted) {
  return wanted != 0 ? wanted : std::max(1U, std::thread::hardware_concurrency());
}

std::size_t expectedJobs(const DispatcherConfig& config) {
  constexpr std::size_t kManyWaiting = 100'000;
  const std::size_t waiting = config.queue_size != 0 ? config.queue_size : kManyWaiting;
  return workersFor(config.pool_size) * (waiting + config.max_results);
}

TaskOutcome thrown(const char* what) {
  TaskOutcome outcome = TaskOutcome::fail(what);
  outcome.error()->code = TaskError::Code::Threw;
  return outcome;
}

template <typename Function>
TaskOutcome catching(Function&& function) {
  try {
    return function();
  } catch (const std::exception& exception) {
    return thrown(exception.what());
  } catch (...) {
    return thrown("something that is no std::exception");
  }
}

}  // namespace

namespace detail {

void flightEnded(Job& job) noexcept {
  if (t_flight == &job) {
    t_flight_landed = true;
    return;
  }
  job.waiting = nullptr;
  job.worker->deliver(job, job);
}

void resumeOnWorker(Job& job, std::coroutine_handle<> waiting) noexcept {
  job.waiting = waiting;
  job.worker->deliver(job, job);
}

}  // namespace detail

Core::Core(DispatcherConfig config, Dispatcher::Handler handler,
           Dispatcher::AsyncHandler async_handler)
    : config_(std::move(config)),
      handler_(std::move(handler)),
      async_handler_(std::move(async_handler)),
      seed_(randomSeed()),
      sessions_(seed_,
                [](Session& session) {
                  session.worker->sessions().fetch_sub(1, std::memory_order_release);
                }),
      index_(expectedJobs(config_), seed_),
      idle_time_(config_.session_idle_time) {
  queue_size_ = config_.queue_size;
  setCallbacks([](Callbacks&) {});
}

Core::~Core() = default;

void Core::start() {
  supervisor_ = std::make_unique<Supervisor>([this](Instant now) { return attend(now); });
  resize(config_.pool_size);
}

// ---- Running

std::optional<TaskOutcome> Core::call(Job& job) {
  const Setting<const Core*> inside(t_inside, this);
  if (handler_) return runHandler(job);
  return runFlight(job);
}

TaskOutcome Core::runHandler(Job& job) {
  return catching([&] { return handler_(job.task, job.stop.get_token()); });
}

std::optional<TaskOutcome> Core::runFlight(Job& job) {
  const Setting flight(t_flight, static_cast<const Job*>(&job));
  const Setting landed(t_flight_landed, false);
  if (!job.flight.handle()) {
    try {
      job.flight = async_handler_(job.task, job.stop.get_token());
    } catch (const std::exception& exception) {
      return thrown(exception.what());
    } catch (...) {
      return thrown("something that is no std::exception");
    }
    if (!job.flight.handle()) return thrown("the handler returned an Async that is no coroutine");
    job.flight.handle().promise().job = &job;
    job.flight.handle().resume();
  } else if (const auto waiting = std::exchange(job.waiting, nullptr)) {
    waiting.resume();
  } else {
    t_flight_landed = true;  // it ended elsewhere
  }
  if (!t_flight_landed) return std::nullopt;
  TaskOutcome outcome = catching([&] { return job.flight.handle().promise().take(); });
  job.flight = Async<TaskOutcome>();
  return outcome;
}

void Core::concluded(Job& job, bool awaited) {
  const Setting<const Core*> inside(t_inside, this);
  if (awaited) {
    dependencies_.ended(job, [](Job& waiting) { waiting.worker->unblock(waiting); });
    { const std::lock_guard lock(ends_mutex_); }
    ends_.notify_all();
  }
  if (job.has_dependencies) dependencies_.forget(job);
  logEnd(job);
  const Callbacks& callbacks = *callbacks_.load(std::memory_order_acquire);
  if (!callbacks.result && !callbacks.error) return;
  if (job.phase() == Phase::NotRun) return;  // handed back, not ended
  report(job, [&] {
    const TaskResult result = job.result();  // copies the user's value, which may throw
    if (callbacks.result) report(job, [&] { callbacks.result(result); });
    if (callbacks.error && !result.ok()) report(job, [&] { callbacks.error(result); });
  });
}

template <typename Tell>
void Core::report(const Job& job, Tell&& tell) const {
  TaskOutcome outcome = catching([&] {
    tell();
    return TaskOutcome::ok();
  });
  if (outcome.isOk()) return;
  log({.level = LogLevel::Warning,
       .what = "callback threw",
       .session_id = job.task.session_id,
       .task_id = job.task.id,
       .detail = outcome.error()->message});
}

void Core::logEnd(const Job& job) const {
  const Phase phase = job.phase();
  log({.level = phase == Phase::Failed ? LogLevel::Warning : LogLevel::Debug,
       .what = phase == Phase::Failed      ? "task failed"
               : phase == Phase::Cancelled ? "task cancelled"
               : phase == Phase::NotRun    ? "task not run"
                                           : "task done",
       .worker_id = job.worker->id(),
       .session_id = job.task.session_id,
       .task_id = job.task.id,
       .detail = job.error ? std::string_view(job.error->message) : std::string_view()});
}

void Core::log(const LogEvent& event) const {
  if (!config_.log || event.level < config_.log_level) return;
  const Setting<const Core*> inside(t_inside, this);
  config_.log(event);
}

void Core::discard(Job* chain, std::vector<std::any>& values, Spent& spent) {
  const Setting<const Core*> inside(t_inside, this);
  values.clear();
  while (chain != nullptr) {
    Job& job = *std::exchange(chain, chain->link);
    if (job.is_named) {
      index_.remove(job);
    } else {
      job.reset();
      spent.add(job);
    }
  }
}

void Core::emptied() {
  if (!stopping_.load(std::memory_order_relaxed)) return;
  {
    const std::lock_guard lock(quiet_mutex_);
    ++times_emptied_;
  }
  quiet_.notify_all();
}

void Core::onResult(Dispatcher::ResultCallback callback) {
  setCallbacks([&](Callbacks& callbacks) { callbacks.result = std::move(callback); });
}

void Core::onError(Dispatcher::ResultCallback callback) {
  setCallbacks([&](Callbacks& callbacks) { callbacks.error = std::move(callback); });
}

void Core::setCallbacks(const std::function<void(Callbacks&)>& change) {
  const std::lock_guard lock(callbacks_mutex_);
  Callbacks callbacks = all_callbacks_.empty() ? Callbacks() : *all_callbacks_.back();
  change(callbacks);
  const bool hears = callbacks.result || callbacks.error;
  const bool logs = config_.log && config_.log_level < LogLevel::Off;
  all_callbacks_.push_back(std::make_unique<const Callbacks>(std::move(callbacks)));
  callbacks_.store(all_callbacks_.back().get(), std::memory_order_release);
  listens_.store(hears || logs, std::memory_order_relaxed);
}

// ---- Submitting

SubmitStatus Core::submit(Task& task, std::optional<Duration> patience) noexcept {
  const bool waits = (patience || config_.on_full == OnFull::Block) && t_inside != this;
  Full full;
  SubmitStatus status = acceptInOrder(task, full, waits);
  if (!waits || full.room == nullptr) return status;
  if (!patience) patience = config_.block_timeout;
  const Instant until = patience ? after(Clock::now(), *patience) : never();
  // What is full may change while this waits.
  while (full.room != nullptr && Clock::now() < until) {
    const Full before = full;
    before.room->waitInLine(before.line, until, [&] {
      full = {};
      status = acceptInOrder(task, full, false);
      return full != before;
    });
  }
  return status;
}

SubmitStatus Core::acceptInOrder(Task& task, Full& full, bool polite) {
  if (task.depends_on.empty()) return accept(task, full, polite, {});
  Task names;  // for the log, which is written when no lock is held
  if (logsAccepted()) names = {.id = task.id, .session_id = task.session_id};
  const Worker* worker = nullptr;
  SubmitStatus status = SubmitStatus::Accepted;
  {
    const auto lock = dependencies_.lock();
    Ended ended;
    status = checkDependencies(task, ended);
    if (status == SubmitStatus::Accepted) status = accept(task, full, polite, {&ended, &worker});
  }
  if (worker != nullptr) logAccepted(*worker, names.session_id, names.id);
  return status;
}

SubmitStatus Core::accept(Task& task, Full& full, bool polite, InOrder in_order) {
  // Looked at twice: a shutdown waits for visits, and must not wait for more and more of them.
  if (stopping_.load(std::memory_order_relaxed)) return SubmitStatus::Stopped;
  SessionTable::Visit visit(sessions_, task.session_id);
  if (stopping_.load(std::memory_order_relaxed)) return SubmitStatus::Stopped;
  // Made before it is known whether it is accepted: the memory of the session is on its way.
  Job* const job = JobShelf::take();
  job->take(std::move(task));
  visit.moveName(job->task.session_id);
  visit.prefetch();
  const Instant now = Clock::now();
  stamp(*job, now);
  const auto refuse = [&](SubmitStatus status) {
    takeBack(task, *job);
    return status;
  };
  Session* const session = sessionOf(visit, polite ? Entry::Polite : Entry::Ordinary);
  if (session == nullptr) {
    full = {&session_room_, Room::kForTheWorker};
    return refuse(SubmitStatus::TooManySessions);
  }
  Worker& worker = *session->worker;
  if (!worker.admit(*session, 1, job->task.session_queue_size)) {
    full = {&worker.room(), visit.hash()};
    return refuse(SubmitStatus::QueueFull);
  }
  // Whoever waits already, for the session or for the worker, comes first.
  std::optional<std::uint64_t> line =
      polite ? worker.room().lineBefore(visit.hash()) : std::nullopt;
  if (!line && !worker.reserve(1)) line = Room::kForTheWorker;
  if (line) {
    worker.turnAway(*session, 1);
    full = {&worker.room(), *line};
    return refuse(SubmitStatus::QueueFull);
  }
  job->session = session;
  job->worker = &worker;
  if (job->is_named && !index_.add(*job)) {
    worker.giveBack(1);
    worker.turnAway(*session, 1);
    return refuse(SubmitStatus::DuplicateId);
  }
  idle_time_.noteUse(*session, now);
  if (in_order.ended != nullptr) {
    linkDependencies(*job, *in_order.ended);
    *in_order.accepted_by = &worker;
  } else if (logsAccepted()) {
    logAccepted(worker, job->task.session_id, job->task.id);
  }
  worker.deliver(*job, *job);
  return SubmitStatus::Accepted;
}

void Core::logAccepted(const Worker& worker, std::string_view session_id,
                       std::string_view task_id) const {
  log({.level = LogLevel::Debug,
       .what = "task accepted",
       .worker_id = worker.id(),
       .session_id = session_id,
       .task_id = task_id});
}

// As it was: a task that is tried again is made when it is accepted.
void Core::takeBack(Task& task, Job& job) {
  job.task.created_at = task.created_at;
  task = std::move(job.task);
  job.reset();
  JobShelf::giveBackOne(job);
}

void Core::stamp(Job& job, Instant now) {
  job.submitted_at = now;
  if (job.task.created_at != std::chrono::system_clock::time_point()) return;
  // One clock is read for every task; how far the other is from it is looked up now and then.
  thread_local Instant looked_at;
  thread_local std::chrono::nanoseconds distance;
  if (now - looked_at > std::chrono::seconds(1) || looked_at == Instant()) {
    distance = std::chrono::system_clock::now().time_since_epoch() - now.time_since_epoch();
    looked_at = now;
  }
  job.task.created_at = std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(now.time_since_epoch() +
                                                                      distance));
}

// Null: no worker has room for another session, or others wait for that.
Session* Core::sessionOf(const SessionTable::Visit& visit, Entry entry) {
  if (Session* const session = visit.find()) return session;
  if (entry == Entry::Polite && session_room_.isAwaited()) return visit.findSurely();
  Session* const session = visit.obtain([&] { return place(visit, entry); });
  if (session != nullptr) supervisor_->notice(Clock::now() + sweepPeriod());
  return session;
}

Worker* Core::place(const SessionTable::Visit& visit, Entry entry) {
  const std::lock_guard lock(placement_mutex_);
  const auto sessions = [this](std::size_t i) {
    return workers_[i].sessions().load(std::memory_order_relaxed);
  };
  std::optional<std::size_t> placed = config_.place
                                          ? config_.place(visit.name(), pool_size_) % pool_size_
                                          : placer_->place(visit.hash(), sessions);
  if (!placed && entry == Entry::Forced) placed = visit.hash() % pool_size_;
  if (!placed) return nullptr;
  Worker& worker = workers_[*placed];
  worker.sessions().fetch_add(1, std::memory_order_relaxed);
  return &worker;
}

SubmitStatus Core::checkDependencies(const Task& task, Ended& ended) {
  for (const std::string& id : task.depends_on) {
    if (id == task.id) return SubmitStatus::DependencyCycle;
    if (!isKnown(id, ended)) return SubmitStatus::UnknownDependency;
  }
  return SubmitStatus::Accepted;
}

// With the lock of the dependencies. One that has not ended is found again while that is held: its
// end is told before it is forgotten, and telling it takes the lock. How one ended is written down.
//
// A task whose submit has not returned is in the index, but has no place in its line yet: whoever
// is accepted now may come before it. To depend on it could close a cycle through that line.
bool Core::isKnown(const std::string& task_id, Ended& ended) {
  bool known = false;
  index_.find(task_id, [&](Job& job) {
    known = job.worker->hasPlace(job);
    if (known && !job.await()) ended[task_id] = job.phase() == Phase::Done;
  });
  return known;
}

void Core::linkDependencies(Job& job, const Ended& ended) {
  for (const std::string& id : job.task.depends_on) {
    if (const auto found = ended.find(id); found != ended.end()) {
      if (!found->second) job.dependency_failed = true;
    } else {
      index_.find(id, [&](Job& other) { dependencies_.add(job, other); });
    }
  }
}

// ---- Asking

std::optional<TaskResult> Core::result(std::string_view task_id) {
  std::optional<TaskResult> result;
  index_.find(task_id, [&](const Job& job) {
    if (isFinal(job.phase())) result = job.result();
  });
  return result;
}

std::optional<TaskResult> Core::wait(std::string_view task_id, Duration patience) {
  const Instant until = after(Clock::now(), patience);
  std::unique_lock lock(ends_mutex_);
  while (true) {
    std::optional<TaskResult> result;
    bool pending = false;
    index_.find(task_id, [&](Job& job) {
      pending = job.await();
      if (pending) return;
      lock.unlock();  // a value is copied as its type likes
      result = job.result();
    });
    if (!pending || ends_.wait_until(lock, until) == std::cv_status::timeout) return result;
  }
}

TaskStatus Core::status(std::string_view task_id) {
  TaskStatus status = TaskStatus::Unknown;
  index_.find(task_id, [&](const Job& job) {
    switch (job.phase()) {
      case Phase::Queued:
      case Phase::Backoff:
        status = TaskStatus::Pending;
        break;
      case Phase::Running:
        status = TaskStatus::Running;
        break;
      case Phase::Done:
        status = TaskStatus::Done;
        break;
      case Phase::Failed:
        status = TaskStatus::Failed;
        break;
      case Phase::Cancelled:
      case Phase::NotRun:
        status = TaskStatus::Cancelled;
        break;
    }
  });
  return status;
}

bool Core::cancel(std::string_view task_id) noexcept {
  bool cancelled = false;
  std::vector<std::stop_source> to_stop;
  index_.find(task_id, [&](Job& job) { cancelled = job.worker->cancel(job, to_stop); });
  tellToStop(to_stop);
  return cancelled;
}

void Core::pause(std::string_view session_id) noexcept {
  const SessionTable::Visit visit(sessions_, session_id);
  if (stopping_.load(std::memory_order_relaxed)) return;
  // A pause must not be lost, and takes no worker's time: it is not bounded.
  Session* const session = sessionOf(visit, Entry::Forced);
  session->worker->setPaused(*session, true);
}

void Core::resume(std::string_view session_id) noexcept {
  const SessionTable::Visit visit(sessions_, session_id);
  if (Session* const session = visit.findSurely()) session->worker->setPaused(*session, false);
}

bool Core::drain(std::string_view session_id, Duration patience) noexcept {
  const Instant until = after(Clock::now(), patience);
  do {
    std::optional<SessionTable::Visit> visit(std::in_place, sessions_, session_id);
    const Session* const session = visit->findSurely();
    if (session == nullptr) return true;
    // A shutdown waits for visits; the wait is not one.
    if (session->worker->waitForEnd(*session, until, [&] { visit.reset(); })) return true;
  } while (Clock::now() < until);
  return false;
}

std::optional<SessionStats> Core::session(std::string_view session_id) {
  const SessionTable::Visit visit(sessions_, session_id);
  const Session* const session = visit.findSurely();
  if (session == nullptr) return std::nullopt;
  return SessionStats{.worker_id = session->worker->id(),
                      .unfinished_tasks = session->worker->unfinishedOf(*session),
                      .paused = session->worker->isPaused(*session)};
}

DispatcherStats Core::stats() {
  DispatcherStats stats;
  WorkerTotals totals;
  for (Worker* const worker : allWorkers()) {
    WorkerStats one = worker->stats(totals);
    stats.queued_tasks += one.queue_length;
    const bool gone = one.leaving && one.session_count == 0 && one.running_tasks == 0;
    if (!gone) stats.workers.push_back(std::move(one));
  }
  stats.total_submitted = totals.accepted;
  stats.total_completed = totals.completed;
  stats.total_failed = totals.failed;
  stats.total_cancelled = totals.cancelled;
  stats.total_not_run = totals.not_run;
  stats.total_retries = totals.retries;
  stats.active_sessions = sessions_.size();
  return stats;
}

// ---- Workers

std::vector<Worker*> Core::allWorkers() {
  const std::lock_guard lock(placement_mutex_);
  std::vector<Worker*> workers;
  for (Worker& worker : workers_) workers.push_back(&worker);
  return workers;
}

void Core::resize(std::size_t pool_size) {
  const std::size_t wanted = workersFor(pool_size);
  {
    const std::lock_guard lock(placement_mutex_);
    if (stopping_.load(std::memory_order_relaxed)) return;
    while (workers_.size() < wanted) {
      workers_.emplace_back(*this, workers_.size()).queue_size.store(queue_size_);
    }
    // First those who come: if there is no thread for one of them, nobody was told yet.
    for (std::size_t i = 0; i < wanted; ++i) workers_[i].enlist(shared_from_this());
    std::vector<unsigned> weights(wanted, 1);
    std::copy_n(config_.weights.begin(), std::min(wanted, config_.weights.size()), weights.begin());
    placer_ = std::make_unique<Placer>(config_.placement, std::move(weights), config_.max_sessions);
    pool_size_ = wanted;
    for (std::size_t i = wanted; i < workers_.size(); ++i) workers_[i].dismiss();
  }
  if (session_room_.isAwaited()) session_room_.made();
  {
    const std::lock_guard lock(sweep_mutex_);
    next_sweep_ = Instant();
  }
  supervisor_->notice(sweepIfDue(Clock::now()));  // idle sessions of those who leave move at once
  log({.level = LogLevel::Info, .what = "resized"});
}

void Core::run(std::size_t worker) {
  Worker* const one = [&] {
    const std::lock_guard lock(placement_mutex_);
    return &workers_[worker];
  }();
  one->runSome();
}

void Core::setQueueSize(std::size_t queue_size) {
  {
    const std::lock_guard lock(placement_mutex_);
    queue_size_ = queue_size;
  }
  for (Worker* const worker : allWorkers()) {
    worker->queue_size.store(queue_size, std::memory_order_relaxed);
    worker->room().made();
  }
}

// Runs what the handlers have left for that case.
void Core::tellToStop(std::vector<std::stop_source>& handlers) const {
  const Setting<const Core*> inside(t_inside, this);
  for (std::stop_source& handler : handlers) handler.request_stop();
}

Instant Core::attend(Instant now) {
  Instant next = never();
  std::vector<std::stop_source> to_stop;
  for (Worker* const worker : allWorkers()) {
    next = std::min(next, worker->attend(now, shared_from_this(), to_stop));
  }
  tellToStop(to_stop);
  return std::min(next, sweepIfDue(now));
}

Duration Core::sweepPeriod() const {
  return std::clamp<Duration>(config_.session_idle_time / 4, std::chrono::milliseconds(1),
                              std::chrono::seconds(1));
}

// Says when the next one is due.
Instant Core::sweepIfDue(Instant now) noexcept {
  const std::lock_guard lock(sweep_mutex_);
  if (stopping_.load(std::memory_order_relaxed)) return never();
  if (now >= next_sweep_) {
    sweep(now);
    const Instant done = Clock::now();
    // While a worker waits for its sessions to end there is some hurry, but sweeps may not take
    // more than a twentieth of a processor.
    const Duration period = anyoneLeaves()
                                ? std::min<Duration>(std::chrono::milliseconds(2), sweepPeriod())
                                : sweepPeriod();
    next_sweep_ = done + std::max(period, 20 * (done - now));
  }
  return sessions_.size() == 0 ? never() : next_sweep_;
}

void Core::sweep(Instant now) {
  const std::size_t forgotten = sessions_.sweep(
      [&](const Session& session) {
        return session.worker->isLeaving() || idle_time_.isOver(session, now);
      },
      [](const std::vector<Session*>& retiring) {
        // Their own workers are asked: there may be some by now that were not there at first.
        std::unordered_set<Worker*> theirs;
        for (const Session* const session : retiring) theirs.insert(session->worker);
        for (Worker* const worker : theirs) worker->keepNeeded(retiring);
      });
  if (forgotten != 0) session_room_.made();
  for (Worker* const worker : allWorkers()) worker->reconsider();
}

bool Core::anyoneLeaves() {
  const std::vector<Worker*> workers = allWorkers();
  return std::any_of(workers.begin(), workers.end(), [](const Worker* worker) {
    return worker->isLeaving() && worker->hasSessions();
  });
}

// ---- The end

// `look` is called at first, and again whenever a worker has said something.
bool Core::waitUntilQuiet(Instant until, const std::function<void()>& look) {
  const std::vector<Worker*> workers = allWorkers();
  const auto isQuiet = [&] {
    return std::none_of(workers.begin(), workers.end(),
                        [](Worker* worker) { return worker->hasUnfinished(); });
  };
  std::unique_lock lock(quiet_mutex_);
  while (true) {
    const std::uint64_t seen = times_emptied_;
    lock.unlock();
    look();
    const bool quiet = isQuiet();
    lock.lock();
    if (quiet || Clock::now() >= until) return quiet;
    if (times_emptied_ == seen) quiet_.wait_until(lock, until);
  }
}

ShutdownReport Core::shutdown(Duration patience) {
  const std::lock_guard lock(shutdown_mutex_);
  if (!report_) report_ = end(patience);
  return *report_;
}

ShutdownReport Core::end(Duration patience) {
  log({.level = LogLevel::Info, .what = "shutdown"});
  const Instant until = after(Clock::now(), patience);
  stopping_.store(true, std::memory_order_relaxed);
  sessions_.waitForVisits();                         // a submit that has not seen it ends before
  { const std::lock_guard lock(sweep_mutex_); }      // so does a sweep: from here on sessions stay
  { const std::lock_guard lock(placement_mutex_); }  // and a resize
  const std::vector<Worker*> workers = allWorkers();
  for (Worker* const worker : workers) worker->room().made();
  session_room_.made();

  ShutdownReport report;
  const auto take = [&](Worker::From from) {
    for (Worker* const worker : workers) worker->takeUnstarted(from, report.not_run_tasks);
  };
  if (!waitUntilQuiet(until, [&] { take(Worker::From::PausedSessions); })) {
    // In this order nothing starts any more when those that run are told to stop.
    for (Worker* const worker : workers) worker->endRetries();
    take(Worker::From::All);
    std::vector<std::stop_source> to_stop;
    for (Worker* const worker : workers) worker->stopRunning(to_stop);
    tellToStop(to_stop);
    waitUntilQuiet(after(Clock::now(), config_.stop_grace), [] {});
  }
  for (const Task& task : report.not_run_tasks) report.not_run.push_back(task.id);
  for (Worker* const worker : workers) worker->namesOfRunning(report.still_running);
  supervisor_->stop();
  for (Worker* const worker : workers) {
    worker->end();
    if (worker->hasUnfinished()) {
      worker->abandonThreads();
    } else {
      worker->joinThreads(Worker::Wait::ForAll);
    }
  }
  return report;
}

}  // namespace nimbus::dispatch
