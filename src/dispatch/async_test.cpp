// Coroutine handlers: a worker keeps many sessions in flight, never two calls of one.

#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <stdexcept>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

// Signals by task id, for handlers that wait until the test says so.
class Signals {
 public:
  Signal<int> of(const std::string& id) {
    const std::lock_guard lock(mutex_);
    return signals_[id];
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Signal<int>> signals_;
};

// Resumes on a thread of its own.
struct OnAnotherThread {
  bool await_ready() const noexcept { return false; }
  void await_suspend(std::coroutine_handle<> waiting) const {
    std::thread([waiting] { waiting.resume(); }).detach();
  }
  void await_resume() const noexcept {}
};

class AsyncTest : public DispatchTest {
 protected:
  // Notes its start, waits for its signal, notes its end.
  Dispatcher::AsyncHandler waiting() {
    return [this](const Task& task, std::stop_token) { return waitFor(task); };
  }

  Async<TaskOutcome> waitFor(const Task& task) {
    journal_.add(task.id);
    const Signal<int> signal = signals_.of(task.id);
    const int value = co_await signal;
    journal_.add(task.id + " ends");
    co_return TaskOutcome::ok(value);
  }

  Task plain(std::string id, std::string session) {
    Task task;
    task.id = std::move(id);
    task.session_id = std::move(session);
    return task;
  }

  Signals signals_;
};

TEST_F(AsyncTest, AWorkerKeepsManySessionsInFlight) {
  startAsync(waiting());
  constexpr int kSessions = 200;
  for (int i = 0; i < kSessions; ++i) submit(plain("t" + std::to_string(i), std::to_string(i)));
  ASSERT_TRUE(journal_.waitForSize(kSessions));
  EXPECT_EQ(dispatcher().stats().workers.size(), 1U);
  EXPECT_EQ(dispatcher().stats().workers[0].running_tasks, static_cast<std::size_t>(kSessions));
  for (int i = kSessions - 1; i >= 0; --i) {
    signals_.of("t" + std::to_string(i)).set(i);
    EXPECT_EQ(std::any_cast<int>(resultOf("t" + std::to_string(i)).value), i);
  }
}

TEST_F(AsyncTest, NeverAreTwoCallsOfOneSessionInFlight) {
  startAsync(waiting());
  submit(plain("a1", "alice"));
  submit(plain("a2", "alice"));
  submit(plain("b1", "bob"));
  ASSERT_TRUE(journal_.waitFor("b1"));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Running);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  signals_.of("b1").set(0);
  resultOf("b1");
  EXPECT_FALSE(journal_.has("a2"));
  signals_.of("a1").set(1);
  ASSERT_TRUE(journal_.waitFor("a2"));
  signals_.of("a2").set(2);
  resultOf("a2");
  EXPECT_THAT(journal_.entries(), ElementsAre("a1", "b1", "b1 ends", "a1 ends", "a2", "a2 ends"));
}

TEST_F(AsyncTest, ASignalThatIsSetBeforeItIsAwaitedDoesNotWait) {
  startAsync(waiting());
  signals_.of("a1").set(7);
  signals_.of("a1").set(8);  // the first counts
  submit(plain("a1", "alice"));
  EXPECT_EQ(std::any_cast<int>(resultOf("a1").value), 7);
}

TEST_F(AsyncTest, AHandlerThatNeverWaitsIsAHandler) {
  startAsync([](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    co_return TaskOutcome::ok(task.id);
  });
  submit(plain("a1", "alice"));
  EXPECT_EQ(std::any_cast<std::string>(resultOf("a1").value), "a1");
}

Async<int> twice(Signal<int> signal) {
  const int value = co_await signal;
  co_return 2 * value;
}

Async<void> checkPositive(int value) {
  if (value <= 0) throw std::runtime_error("not positive");
  co_return;
}

Async<TaskOutcome> nested(Signal<int> signal) {
  const int value = co_await twice(signal);
  co_await checkPositive(value);
  co_return TaskOutcome::ok(value);
}

TEST_F(AsyncTest, AHandlerMayAwaitOtherCoroutines) {
  startAsync([this](const Task& task, std::stop_token) { return nested(signals_.of(task.id)); });
  submit(plain("a1", "alice"));
  submit(plain("a2", "alice"));
  signals_.of("a1").set(21);
  EXPECT_EQ(std::any_cast<int>(resultOf("a1").value), 42);
  signals_.of("a2").set(-1);
  EXPECT_EQ(errorOf("a2"), TaskError::Code::Threw);
  EXPECT_EQ(resultOf("a2").error->message, "not positive");
}

TEST_F(AsyncTest, WhatACoroutineThrowsIsAFailure) {
  startAsync([this](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    const Signal<int> signal = signals_.of(task.id);
    if (task.id == "a3") co_return TaskOutcome::reject("no");
    const int value = co_await signal;
    if (value == 1) throw std::runtime_error("one");
    throw value;
  });
  for (const char* id : {"a1", "a2", "a3"}) submit(plain(id, "alice"));
  signals_.of("a1").set(1);
  signals_.of("a2").set(2);
  EXPECT_EQ(resultOf("a1").error->message, "one");
  EXPECT_EQ(errorOf("a2"), TaskError::Code::Threw);
  EXPECT_EQ(errorOf("a3"), TaskError::Code::Failed);
}

TEST_F(AsyncTest, AThrowBeforeTheCoroutineBeginsIsAFailureToo) {
  startAsync([](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    if (task.id == "a1") throw std::runtime_error("no coroutine");
    throw 1;
  });
  submit(plain("a1", "alice"));
  submit(plain("a2", "alice"));
  EXPECT_EQ(resultOf("a1").error->message, "no coroutine");
  EXPECT_EQ(errorOf("a2"), TaskError::Code::Threw);
}

TEST_F(AsyncTest, AHandlerMayAwaitWhatResumesItElsewhere) {
  config_.queue_size = 0;
  startAsync([this](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    co_await OnAnotherThread();
    if (task.priority == 1) co_return TaskOutcome::ok(1);  // ends elsewhere
    const Signal<int> signal = signals_.of(task.id);
    co_await signal;  // and comes back to its worker
    co_return TaskOutcome::ok(2);
  });
  for (int i = 0; i < 100; ++i) {
    Task task = plain(std::to_string(i), std::to_string(i % 9));
    task.priority = i % 2;
    signals_.of(task.id).set(0);
    submit(std::move(task));
  }
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(std::any_cast<int>(resultOf(std::to_string(i)).value), i % 2 == 1 ? 1 : 2);
  }
}

TEST_F(AsyncTest, AfterASignalAHandlerGoesOnOnItsWorker) {
  std::thread::id before;
  std::thread::id after;
  startAsync([&](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    before = std::this_thread::get_id();
    journal_.add(task.id);
    const Signal<int> signal = signals_.of(task.id);
    co_await signal;
    after = std::this_thread::get_id();
    co_return TaskOutcome::ok();
  });
  submit(plain("a1", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  std::thread([&] { signals_.of("a1").set(1); }).join();
  resultOf("a1");
  EXPECT_EQ(before, after);
}

TEST_F(AsyncTest, AFlightThatTimesOutIsToldAndHasFailed) {
  config_.task_timeout = std::chrono::milliseconds(1);
  config_.stop_grace = std::chrono::hours(1);
  startAsync([](const Task&, std::stop_token stop) -> Async<TaskOutcome> {
    const Signal<int> stopped;
    const std::stop_callback tells(stop, [&] { stopped.set(1); });
    co_await stopped;
    co_return TaskOutcome::ok();
  });
  submit(plain("a1", "alice"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
}

TEST_F(AsyncTest, AFlightThatIgnoresItsTimeHoldsUpItsSessionOnly) {
  config_.stop_grace = std::chrono::milliseconds(1);
  startAsync([this](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    journal_.add(task.id);
    const Signal<int> signal = signals_.of(task.id);
    if (task.id == "a1") co_await signal;
    co_return TaskOutcome::ok();
  });
  Task late = plain("a1", "alice");  // the others have all the time of a slow machine
  late.timeout = std::chrono::milliseconds(1);
  submit(std::move(late));
  submit(plain("a2", "alice"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  submit(plain("b1", "bob"));
  resultOf("b1");
  EXPECT_FALSE(journal_.has("a2"));
  EXPECT_EQ(dispatcher().stats().workers[0].stuck_tasks, 1U);
  signals_.of("a1").set(1);
  resultOf("a2");
  EXPECT_EQ(dispatcher().stats().workers[0].stuck_tasks, 0U);
}

TEST_F(AsyncTest, AFlightThatIsStuckTakesNoPlaceAmongThoseInFlight) {
  config_.max_in_flight = 1;
  config_.stop_grace = std::chrono::milliseconds(1);
  startAsync([this](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    const Signal<int> signal = signals_.of(task.id);
    if (task.id == "a1") co_await signal;
    co_return TaskOutcome::ok();
  });
  Task stuck = plain("a1", "alice");
  stuck.timeout = std::chrono::milliseconds(1);
  submit(std::move(stuck));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
  submit(plain("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  signals_.of("a1").set(1);
}

TEST_F(AsyncTest, ACoroutineThatBlocksItsThreadHoldsUpItsSessionOnly) {
  config_.stop_grace = std::chrono::milliseconds(1);
  const Latch release = latch();
  startAsync([this, release](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    journal_.add(task.id);
    const Signal<int> signal = signals_.of(task.id);
    if (task.id == "a1") {
      release.wait();
      co_await signal;
    }
    co_return TaskOutcome::ok();
  });
  Task stuck = plain("a1", "alice");
  stuck.timeout = std::chrono::milliseconds(1);
  submit(std::move(stuck));
  submit(plain("a2", "alice"));
  submit(plain("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  release.open();
  signals_.of("a1").set(1);
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_EQ(errorOf("a1"), TaskError::Code::TimedOut);
}

TEST_F(AsyncTest, AFlightCanBeCancelled) {
  startAsync([this](const Task& task, std::stop_token stop) -> Async<TaskOutcome> {
    journal_.add(task.id);
    const Signal<int> signal = signals_.of(task.id);
    const std::stop_callback tells(stop, [&] { signal.set(1); });
    co_await signal;
    co_return TaskOutcome::ok();
  });
  submit(plain("a1", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
}

TEST_F(AsyncTest, AFlightIsTriedAgain) {
  config_.retry = {.max_attempts = 3, .backoff = std::chrono::milliseconds(1)};
  std::atomic<int> runs = 0;
  startAsync([&](const Task&, std::stop_token) -> Async<TaskOutcome> {
    co_await OnAnotherThread();
    if (++runs < 3) co_return TaskOutcome::fail("not yet");
    co_return TaskOutcome::ok();
  });
  submit(plain("a1", "alice"));
  EXPECT_EQ(resultOf("a1").attempts, 3U);
  EXPECT_TRUE(resultOf("a1").ok());
}

TEST_F(AsyncTest, NoMoreAreInFlightThanConfigured) {
  config_.max_in_flight = 2;
  startAsync(waiting());
  for (int i = 0; i < 5; ++i) submit(plain("t" + std::to_string(i), std::to_string(i)));
  ASSERT_TRUE(journal_.waitForSize(2));
  EXPECT_EQ(dispatcher().stats().workers[0].running_tasks, 2U);
  EXPECT_EQ(dispatcher().status("t2"), TaskStatus::Pending);
  signals_.of("t1").set(1);
  ASSERT_TRUE(journal_.waitFor("t2"));
  EXPECT_THAT(journal_.entries(), ElementsAre("t0", "t1", "t1 ends", "t2"));
  for (int i = 0; i < 5; ++i) signals_.of("t" + std::to_string(i)).set(1);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(resultOf("t" + std::to_string(i)).ok());
}

TEST_F(AsyncTest, AFlightThatEndsAfterTheShutdownIsHarmless) {
  config_.stop_grace = std::chrono::milliseconds(1);
  const Latch destroyed = latch();
  struct Guard {
    Latch destroyed;
    ~Guard() { destroyed.open(); }
  };
  startAsync([this, guard = std::make_shared<Guard>(destroyed)](const Task& task, std::stop_token) {
    return waitFor(task);
  });
  submit(plain("a1", "alice"));
  submit(plain("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  const ShutdownReport report = dispatcher().shutdown(Duration::zero());
  EXPECT_THAT(report.still_running, ElementsAre("a1"));
  EXPECT_THAT(report.not_run, ElementsAre("a2"));
  signals_.of("a1").set(1);
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Cancelled);
  EXPECT_TRUE(journal_.has("a1 ends"));
}

TEST_F(AsyncTest, ManySignalsFromManyThreadsLoseNothing) {
  config_.pool_size = 2;
  config_.queue_size = 0;
  std::vector<std::atomic<int>> inside(10);
  std::atomic<bool> overlapped = false;
  startAsync([&](const Task& task, std::stop_token) -> Async<TaskOutcome> {
    std::atomic<int>& mine = inside[static_cast<std::size_t>(std::stoi(task.session_id))];
    if (mine.fetch_add(1) != 0) overlapped = true;
    int sum = 0;
    for (int i = 0; i < 3; ++i) {
      const Signal<int> signal = signals_.of(task.id + ":" + std::to_string(i));
      sum += co_await signal;
    }
    mine.fetch_sub(1);
    co_return TaskOutcome::ok(sum);
  });
  constexpr int kTasks = 300;
  std::vector<std::thread> setters;
  for (int t = 0; t < 3; ++t) {
    setters.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        signals_.of(std::to_string(i) + ":" + std::to_string((t + i) % 3)).set(1);
      }
    });
  }
  for (int i = 0; i < kTasks; ++i) submit(plain(std::to_string(i), std::to_string(i % 10)));
  for (int i = 0; i < kTasks; ++i) {
    EXPECT_EQ(std::any_cast<int>(resultOf(std::to_string(i)).value), 3);
  }
  for (std::thread& setter : setters) setter.join();
  EXPECT_FALSE(overlapped);
}

TEST(AsyncValueTest, AnAsyncCanBeMovedAndDropped) {
  Async<int> first = twice(Signal<int>());
  Async<int> second = std::move(first);
  EXPECT_FALSE(first.handle());
  EXPECT_TRUE(second.handle());
  first = std::move(second);
  EXPECT_TRUE(first.handle());
}

TEST_F(AsyncTest, AHandlerThatReturnsNoCoroutineHasFailed) {
  startAsync([](const Task&, const std::stop_token&) { return Async<TaskOutcome>(); });
  submit(makeTask("a1", "alice", {}));
  EXPECT_EQ(errorOf("a1"), TaskError::Code::Threw);
}

}  // namespace
}  // namespace nimbus::dispatch
