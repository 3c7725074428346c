// Random schedules. Threads submit (one by one and in batches), cancel, pause, resize and ask, with
// handlers that succeed, fail, throw, overrun and are tried again, until a shutdown that comes at
// any time. Every start, finish and result is recorded; afterwards the promises are checked.
//
//   NIMBUS_SEED=n        begins with that schedule
//   NIMBUS_SCHEDULES=n   how many, however long they take; otherwise as many as fit into a while
//
// The seed decides what is done, not how threads take turns: a rare failure may need its seed more
// than once. With every other seed, threads are interrupted at random.

#include "dispatch/testing/fixture.h"
#include "dispatch/testing/loops.h"
#include "dispatch/testing/preemption.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>

namespace nimbus::dispatch {
namespace {

constexpr std::chrono::seconds kAWhile(3);
constexpr std::uint64_t kSchedules = 4000;
constexpr std::size_t kSubmitters = 3;
constexpr std::size_t kSessions = 6;
constexpr std::uint64_t kNever = ~std::uint64_t{0};

std::optional<std::uint64_t> fromEnvironment(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  return std::stoull(text);
}

enum class Style { Sync, Async, Loops };  // Loops: Async, on event loops
enum class Deed { Succeed, Fail, Reject, Throw, FailOnce, Linger, Obey, Overrun };

struct Attempt {
  std::uint64_t start = kNever;
  std::uint64_t finish = kNever;
};

// What is known of one task. Handlers of a session write without a lock: that they never meet is
// what is tested, and a sanitizer looks on.
struct Record {
  std::size_t session = 0;
  std::size_t submitter = 0;
  Deed deed = Deed::Succeed;
  std::string dependency;
  bool accepted = false;
  std::vector<Attempt> attempts;
  std::atomic<std::uint32_t> finished = 0;  // attempts
  std::atomic<int> results = 0;
  std::atomic<std::uint64_t> ended_at = kNever;
  TaskResult result;
};

// Sets signals for coroutines, a little later, on a thread of its own.
class Setter {
 public:
  Setter() : thread_([this] { run(); }) {}
  ~Setter() {
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void later(const Signal<int>& signal) {
    {
      const std::lock_guard lock(mutex_);
      signals_.push_back(signal);
    }
    changed_.notify_one();
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return done_ || !signals_.empty(); });
      if (signals_.empty()) return;
      const Signal<int> signal = signals_.front();
      signals_.pop_front();
      lock.unlock();
      signal.set(1);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Signal<int>> signals_;
  bool done_ = false;
  std::thread thread_;
};

class Schedule {
 public:
  Schedule(std::uint64_t seed, Style style) : random_(seed), style_(style) {}

  // For a schedule that hangs.
  void describe() {
    std::fprintf(stderr, "stage: %s; acts %d, inside %d\n", stage_.load(), acts_.load(),
                 inside_.load());
    for (std::size_t i = 0; i < next_record_; ++i) {
      const Record& record = records_[i];
      if (record.ended_at != kNever) continue;
      std::fprintf(stderr,
                   "task %zu of session %zu: deed %d, %u attempts ended, depends on %s, %s\n", i,
                   record.session, static_cast<int>(record.deed), record.finished.load(),
                   record.dependency.c_str(),
                   record.accepted ? "accepted" : "refused, or still being submitted");
    }
    const DispatcherStats stats = dispatcher_->stats();
    for (const WorkerStats& worker : stats.workers) {
      std::fprintf(stderr, "%s: %zu queued, %zu running, %zu stuck, %zu sessions%s\n",
                   worker.worker_id.c_str(), worker.queue_length, worker.running_tasks,
                   worker.stuck_tasks, worker.session_count, worker.leaving ? ", leaving" : "");
    }
  }

  void run() {
    prepare();
    stage_ = "submitting";
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < kSubmitters; ++i) {
      threads.emplace_back([this, i, seed = random_()] { act(i, seed); });
    }
    const bool early = chance(random_, 3);
    if (early) {
      while (acts_ < 60) std::this_thread::yield();
    } else {
      for (std::thread& thread : threads) thread.join();
    }
    stage_ = "shutting down";
    const Duration patiences[] = {Duration::zero(), std::chrono::milliseconds(1), kLong};
    const auto before = std::chrono::steady_clock::now();
    const ShutdownReport report = dispatcher_->shutdown(patiences[random_() % 3]);
    // All tasks take a moment: what is not handed back has ended long before the patience has.
    EXPECT_LT(std::chrono::steady_clock::now() - before, kLong / 2);
    if (early) {
      for (std::thread& thread : threads) thread.join();
    }
    stage_ = "waiting for those left alone";
    // Those that were left alone on their threads end too, even if they have hardly begun.
    for (const std::string& id : report.still_running) {
      const Record& record = records_[std::stoul(id)];
      ASSERT_TRUE(eventually([&] {
        return record.ended_at != kNever && record.finished == record.result.attempts;
      })) << id;
    }
    ASSERT_EQ(inside_, 0);
    stage_ = "checking";
    check(report);
    stage_ = "destroying";
    loops_.stop();
    dispatcher_.reset();
  }

 private:
  using Random = std::mt19937_64;

  static bool chance(Random& random, unsigned one_in) { return random() % one_in == 0; }

  Duration brief(Random& random) { return std::chrono::microseconds(random() % 300); }

  void prepare() {
    DispatcherConfig config;
    config.pool_size = 1 + random_() % 3;
    config.queue_size = chance(random_, 2) ? 0 : 5 + random_() % 30;
    config.session_queue_size = chance(random_, 3) ? 5 : 0;
    config.max_sessions = chance(random_, 4) ? 3 : 0;
    config.task_timeout = std::chrono::microseconds(200 + random_() % 1500);
    config.stop_grace = std::chrono::microseconds(random_() % 500);
    if (chance(random_, 2)) {
      config.on_full = OnFull::Block;
      config.block_timeout = std::chrono::milliseconds(2);
    }
    config.retry = {.max_attempts = 1 + static_cast<std::uint32_t>(random_() % 3),
                    .backoff = brief(random_)};
    config.placement = static_cast<Placement>(random_() % 3);
    config.session_idle_time = chance(random_, 2) ? Duration::zero() : std::chrono::hours(1);
    config.quantum_tasks = 1 + static_cast<std::uint32_t>(random_() % 16);
    config.max_results = chance(random_, 3) ? random_() % 10 : 10'000;
    config.max_in_flight = chance(random_, 2) ? 0 : 1 + random_() % 3;
    config.spin = chance(random_, 2) ? Duration::zero() : std::chrono::microseconds(20);
    max_attempts_ = config.retry.max_attempts;
    ordered_ = chance(random_, 2);
    if (style_ == Style::Loops) loops_.serve(config);
    if (style_ == Style::Sync) {
      dispatcher_ = std::make_unique<Dispatcher>(
          config, [this](const Task& task, const std::stop_token& stop) {
            return perform(*recordOf(task), stop);
          });
    } else {
      dispatcher_ =
          std::make_unique<Dispatcher>(config, [this](const Task& task, std::stop_token stop) {
            return fly(*recordOf(task), std::move(stop));
          });
    }
    loops_.begin(*dispatcher_);
    dispatcher_->onResult([this](const TaskResult& result) {
      Record& record = records_[std::stoul(result.task_id)];
      if (++record.results == 1) record.result = result;
      record.ended_at = ++clock_;
    });
  }

  static Record* recordOf(const Task& task) { return std::any_cast<Record*>(task.payload); }

  // ---- handlers

  void begin(Record& record) {
    ++inside_;
    ++unguarded_[record.session];
    record.attempts.push_back({.start = ++clock_});
  }

  void finish(Record& record) {
    record.attempts.back().finish = ++clock_;
    ++unguarded_[record.session];
    --inside_;
    ++record.finished;
  }

  static void lingerFor(Duration time) {
    const auto until = std::chrono::steady_clock::now() + time;
    while (std::chrono::steady_clock::now() < until) std::this_thread::yield();
  }

  static TaskOutcome answer(const Record& record) {
    switch (record.deed) {
      case Deed::Fail:
        return TaskOutcome::fail("failed");
      case Deed::Reject:
        return TaskOutcome::reject("rejected");
      case Deed::Throw:
        throw std::runtime_error("thrown");
      case Deed::FailOnce:
        if (record.attempts.size() == 1) return TaskOutcome::fail("once");
        break;
      default:
        break;
    }
    return TaskOutcome::ok(1);
  }

  struct Finisher {
    Schedule& schedule;
    Record& record;
    ~Finisher() { schedule.finish(record); }
  };

  TaskOutcome perform(Record& record, const std::stop_token& stop) {
    begin(record);
    const Finisher finisher{*this, record};
    if (record.deed == Deed::Linger) lingerFor(std::chrono::microseconds(100));
    if (record.deed == Deed::Overrun) lingerFor(std::chrono::milliseconds(3));
    if (record.deed == Deed::Obey) waitForStop(stop);
    return answer(record);
  }

  Async<TaskOutcome> fly(Record& record, std::stop_token stop) {
    begin(record);
    const Finisher finisher{*this, record};
    const Signal<int> first;
    setter_.later(first);
    co_await first;
    if (record.deed == Deed::Overrun) lingerFor(std::chrono::milliseconds(3));
    if (record.deed == Deed::Obey) {
      const Signal<int> stopped;
      const std::stop_callback tells(stop, [stopped] { stopped.set(1); });
      co_await stopped;
    }
    const Signal<int> second;
    if (record.deed == Deed::Linger) {
      setter_.later(second);
      co_await second;
    }
    co_return answer(record);
  }

  // ---- submitters

  // Writes the record; the id is its number.
  Task make(Random& random, std::size_t submitter) {
    const std::size_t number = next_record_++;
    Record& record = records_.at(number);
    record.session = random() % kSessions;
    record.submitter = submitter;
    record.deed = static_cast<Deed>(random() % 8);
    if (record.deed == Deed::Overrun && !chance(random, 4)) record.deed = Deed::Succeed;
    Task task;
    task.id = std::to_string(number);
    task.session_id = "s" + std::to_string(record.session);
    task.payload = &record;
    task.priority = static_cast<int>(random() % 7) - 3;
    if (chance(random, 10) && number > 0) {
      record.dependency = std::to_string(random() % number);
      task.depends_on = {record.dependency};
    }
    return task;
  }

  // In the ordered mode submits to one session are made one after the other, and the order is
  // known.
  std::vector<std::unique_lock<std::mutex>> lockSessions(const std::vector<Task>& tasks) {
    std::set<std::size_t> sessions;
    for (const Task& task : tasks) sessions.insert(recordOf(task)->session);
    std::vector<std::unique_lock<std::mutex>> locks;
    if (!ordered_) return locks;
    for (const std::size_t session : sessions) locks.emplace_back(session_mutexes_[session]);
    return locks;
  }

  void noteAccepted(Record& record) {
    record.accepted = true;
    if (ordered_) lines_[record.session].push_back(&record);
  }

  void act(std::size_t submitter, std::uint64_t seed) {
    Random random(seed);
    for (int i = 0; i < 60; ++i) {
      ++acts_;
      const std::string someone =
          std::to_string(random() % std::max<std::size_t>(next_record_.load(), 1));
      const std::string session = "s" + std::to_string(random() % kSessions);
      switch (random() % 20) {
        default: {
          std::vector<Task> tasks;
          tasks.push_back(make(random, submitter));
          Record& record = *recordOf(tasks[0]);
          const auto locks = lockSessions(tasks);
          const SubmitStatus status = dispatcher_->submit(std::move(tasks[0]));
          if (status == SubmitStatus::Accepted) noteAccepted(record);
          break;
        }
        case 0:
        case 1: {
          std::vector<Task> tasks;
          for (std::size_t n = 2 + random() % 6; n > 0; --n) {
            tasks.push_back(make(random, submitter));
          }
          std::vector<Record*> records;
          for (const Task& task : tasks) records.push_back(recordOf(task));
          const auto locks = lockSessions(tasks);
          const auto statuses = dispatcher_->submitBatch(std::move(tasks));
          for (std::size_t n = 0; n < records.size(); ++n) {
            if (statuses[n] == SubmitStatus::Accepted) noteAccepted(*records[n]);
          }
          break;
        }
        case 2:
        case 3:
          dispatcher_->cancel(someone);
          break;
        case 4:
          dispatcher_->pause(session);
          break;
        case 5:
        case 6:
          dispatcher_->resume(session);
          break;
        case 7:
          dispatcher_->resize(1 + random() % 4);
          break;
        case 8:
          dispatcher_->setQueueSize(5 + random() % 30);
          dispatcher_->stats();
          break;
        case 9:
          dispatcher_->wait(someone, brief(random));
          dispatcher_->drain(session, brief(random));
          dispatcher_->session(session);
          break;
      }
    }
  }

  // ---- checks

  void check(const ShutdownReport& report) {
    std::set<const Record*> not_run;
    ASSERT_EQ(report.not_run.size(), report.not_run_tasks.size());
    for (const Task& task : report.not_run_tasks) {
      ASSERT_TRUE(not_run.insert(recordOf(task)).second) << task.id << " handed back twice";
    }
    checkConservation(not_run);
    checkSessions(not_run);
    checkDependencies();
    if (ordered_) {
      checkTotalOrder(not_run);
      checkHandedBackOrder(report);
    }
  }

  void checkConservation(const std::set<const Record*>& not_run) {
    DispatcherStats expected;
    for (std::size_t i = 0; i < next_record_; ++i) {
      Record& record = records_[i];
      if (!record.accepted) {
        EXPECT_TRUE(record.attempts.empty()) << i << " was refused and ran";
        EXPECT_EQ(record.results, 0) << i << " was refused and has a result";
        EXPECT_FALSE(not_run.contains(&record)) << i << " was refused and handed back";
        continue;
      }
      ++expected.total_submitted;
      if (not_run.contains(&record)) {
        ++expected.total_not_run;
        EXPECT_EQ(record.results, 0) << i << " was handed back and has a result";
        continue;
      }
      // One that was left alone reports its end a moment after its handler has returned.
      EXPECT_TRUE(eventually([&] { return record.ended_at != kNever; })) << i << " was lost";
      EXPECT_EQ(record.results, 1) << i;
      const TaskResult& result = record.result;
      EXPECT_EQ(result.attempts, record.attempts.size()) << i;
      EXPECT_LE(record.attempts.size(), max_attempts_) << i;
      if (result.ok()) {
        ++expected.total_completed;
        EXPECT_FALSE(record.attempts.empty()) << i;
      } else if (result.error->code == TaskError::Code::Cancelled) {
        ++expected.total_cancelled;
      } else {
        ++expected.total_failed;
      }
      if (!result.ok() && result.error->code == TaskError::Code::DependencyFailed) {
        EXPECT_TRUE(record.attempts.empty()) << i;
      }
    }
    const DispatcherStats stats = dispatcher_->stats();
    EXPECT_EQ(stats.total_submitted, expected.total_submitted);
    EXPECT_EQ(stats.total_completed, expected.total_completed);
    EXPECT_EQ(stats.total_failed, expected.total_failed);
    EXPECT_EQ(stats.total_cancelled, expected.total_cancelled);
    EXPECT_EQ(stats.total_not_run, expected.total_not_run);
    EXPECT_EQ(stats.queued_tasks, 0U);
  }

  std::vector<Record*> startedOf(std::size_t session) {
    std::vector<Record*> started;
    for (std::size_t i = 0; i < next_record_; ++i) {
      Record& record = records_[i];
      if (record.session == session && !record.attempts.empty()) started.push_back(&record);
    }
    std::sort(started.begin(), started.end(), [](const Record* a, const Record* b) {
      return a->attempts.front().start < b->attempts.front().start;
    });
    return started;
  }

  std::size_t numberOf(const Record& record) const {
    return static_cast<std::size_t>(&record - records_.data());
  }

  // One at a time, all attempts of a task together, its end told before the next one starts.
  void checkSessions(const std::set<const Record*>& not_run) {
    for (std::size_t session = 0; session < kSessions; ++session) {
      std::uint64_t free_since = 0;
      std::map<std::size_t, std::size_t> latest;  // of each submitter
      for (const Record* const record : startedOf(session)) {
        for (const Attempt& attempt : record->attempts) {
          EXPECT_GT(attempt.start, free_since) << numberOf(*record) << " overlaps another";
          EXPECT_NE(attempt.finish, kNever) << numberOf(*record) << " did not finish";
          free_since = attempt.finish;
        }
        if (!not_run.contains(record)) {
          // A handler that overran may return after its end was told.
          free_since = std::max(free_since, record->ended_at.load());
        }
        const auto [before, first] = latest.try_emplace(record->submitter, 0);
        if (!first) {
          EXPECT_LT(before->second, numberOf(*record)) << "passed another of its submitter";
        }
        before->second = numberOf(*record);
      }
    }
  }

  void checkDependencies() {
    for (std::size_t i = 0; i < next_record_; ++i) {
      const Record& record = records_[i];
      if (record.dependency.empty() || record.attempts.empty()) continue;
      const Record& other = records_[std::stoul(record.dependency)];
      EXPECT_EQ(other.results, 1) << i << " ran before " << record.dependency;
      EXPECT_TRUE(other.result.ok()) << i << " ran though " << record.dependency << " failed";
      EXPECT_LT(other.attempts.back().finish, record.attempts.front().start) << i;
    }
  }

  void checkTotalOrder(const std::set<const Record*>& not_run) {
    for (std::size_t session = 0; session < kSessions; ++session) {
      std::uint64_t last_start = 0;
      bool handed_back = false;
      for (const Record* const record : lines_[session]) {
        if (not_run.contains(record)) handed_back = true;
        if (record->attempts.empty()) continue;
        EXPECT_GT(record->attempts.front().start, last_start)
            << numberOf(*record) << " was passed by a later one";
        last_start = record->attempts.front().start;
        if (!not_run.contains(record)) {
          EXPECT_FALSE(handed_back) << numberOf(*record) << " ran, one before it did not";
        }
      }
    }
  }

  void checkHandedBackOrder(const ShutdownReport& report) {
    for (std::size_t session = 0; session < kSessions; ++session) {
      const std::vector<const Record*>& line = lines_[session];
      auto place = line.begin();
      for (const Task& task : report.not_run_tasks) {
        const Record* const record = recordOf(task);
        if (record->session != session) continue;
        place = std::find(place, line.end(), record);
        EXPECT_NE(place, line.end()) << task.id << " is handed back out of order";
      }
    }
  }

  Random random_;
  const Style style_;
  std::atomic<const char*> stage_ = "preparing";
  bool ordered_ = false;
  std::uint32_t max_attempts_ = 1;
  std::atomic<std::uint64_t> clock_ = 0;
  std::atomic<int> inside_ = 0;
  std::atomic<int> acts_ = 0;
  std::atomic<std::size_t> next_record_ = 0;
  std::vector<Record> records_ = std::vector<Record>(kSubmitters * 60 * 8);
  std::array<int, kSessions> unguarded_ = {};
  std::array<std::mutex, kSessions> session_mutexes_;
  std::array<std::vector<const Record*>, kSessions> lines_;
  Setter setter_;
  Loops loops_{2};
  std::unique_ptr<Dispatcher> dispatcher_;
};

// Names the schedule that hangs.
class Watchdog {
 public:
  Watchdog(std::uint64_t seed, Schedule& schedule)
      : thread_([this, seed, &schedule] {
          if (done_.wait(2 * kLong)) return;
          std::fprintf(stderr, "hangs: NIMBUS_SEED=%llu NIMBUS_SCHEDULES=1\n",
                       static_cast<unsigned long long>(seed));
          schedule.describe();
          std::abort();
        }) {}
  ~Watchdog() {
    done_.open();
    thread_.join();
  }

 private:
  Latch done_;
  std::thread thread_;
};

class ScheduleTest : public ::testing::TestWithParam<Style> {};

TEST_P(ScheduleTest, KeepsEveryPromise) {
  const std::uint64_t first = fromEnvironment("NIMBUS_SEED").value_or(std::random_device()());
  const auto asked = fromEnvironment("NIMBUS_SCHEDULES");
  const auto deadline = std::chrono::steady_clock::now() + kAWhile;
  std::printf("NIMBUS_SEED=%llu\n", static_cast<unsigned long long>(first));
  std::uint64_t done = 0;
  for (; done < asked.value_or(kSchedules); ++done) {
    if (!asked && std::chrono::steady_clock::now() > deadline) break;
    const std::uint64_t seed = first + done;
    SCOPED_TRACE("NIMBUS_SEED=" + std::to_string(seed) + " NIMBUS_SCHEDULES=1");
    std::optional<Preemption> preemption;
    if (seed % 2 == 1) preemption.emplace(seed);
    Schedule schedule(seed, GetParam());
    const Watchdog watchdog(seed, schedule);
    schedule.run();
    if (HasFailure()) break;
  }
  RecordProperty("schedules", std::to_string(done));
}

INSTANTIATE_TEST_SUITE_P(Handlers, ScheduleTest,
                         ::testing::Values(Style::Sync, Style::Async, Style::Loops),
                         [](const auto& style) {
                           return style.param == Style::Sync    ? "Sync"
                                  : style.param == Style::Async ? "Async"
                                                                : "Loops";
                         });

}  // namespace
}  // namespace nimbus::dispatch
