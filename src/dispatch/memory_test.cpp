// What the dispatcher costs: counted by an operator new of this program.

#include "dispatch/session.h"
#include "dispatch/session_table.h"
#include "dispatch/testing/fake_host.h"
#include "dispatch/testing/fixture.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

// ThreadSanitizer brings an operator new of its own; there nothing is counted.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define NIMBUS_COUNTS_NOTHING
#endif
#endif

namespace {

std::atomic<std::size_t> g_allocations = 0;
std::atomic<std::size_t> g_bytes = 0;  // in use

#ifndef NIMBUS_COUNTS_NOTHING
void* counted(std::size_t size, std::size_t alignment) {
  g_allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, size == 0 ? 1 : size) != 0) throw std::bad_alloc();
  g_bytes.fetch_add(malloc_usable_size(memory), std::memory_order_relaxed);
  return memory;
}

void freed(void* memory) noexcept {
  if (memory != nullptr) {
    g_bytes.fetch_sub(malloc_usable_size(memory), std::memory_order_relaxed);
  }
  std::free(memory);
}
#endif

}  // namespace

#ifndef NIMBUS_COUNTS_NOTHING
void* operator new(std::size_t size) {
  return counted(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__);
}
void* operator new(std::size_t size, std::align_val_t alignment) {
  return counted(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  freed(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  freed(memory);
}
#endif

namespace nimbus::dispatch {
namespace {

class MemoryTest : public DispatchTest {};

TEST_F(MemoryTest, AnIdleSessionCostsAtMostAHundredBytes) {
#ifdef NIMBUS_COUNTS_NOTHING
  GTEST_SKIP() << "nothing is counted here";
#endif
  constexpr std::size_t kSessions = 50'000;
  FakeHost host;
  Worker worker(host, 0);
  SessionTable table(1, [](Session&) {});
  const std::size_t before = g_bytes;
  for (std::size_t i = 0; i < kSessions; ++i) {
    std::string name = "00000000-0000-0000-0000-000000" + std::to_string(100'000 + i);
    ASSERT_EQ(name.size(), 36U);  // of a UUID
    const SessionTable::Visit visit(table, name);
    visit.obtain([&] { return &worker; });
  }
  // A sweep lets go of the smaller tables that were needed on the way.
  table.sweep([](const Session&) { return false; }, [](const std::vector<Session*>&) {});
  EXPECT_LE((g_bytes - before) / kSessions, 100U);
}

TEST_F(MemoryTest, SessionsAreForgottenAfterTheIdleTime) {
  config_.session_idle_time = std::chrono::milliseconds(1);
  config_.queue_size = 0;
  start();
  for (int i = 0; i < 5000; ++i) {
    submit(makeTask("", "s" + std::to_string(i),
                    [](const Task&, const std::stop_token&) { return TaskOutcome::ok(); }));
  }
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().active_sessions == 0; }));
  EXPECT_EQ(dispatcher().stats().workers[0].session_count, 0U);
  EXPECT_EQ(dispatcher().stats().total_completed, 5000U);
}

TEST_F(MemoryTest, ASessionWithWorkIsNotForgotten) {
  config_.session_idle_time = Duration::zero();
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  // Others come and go meanwhile: there were sweeps.
  config_.pool_size = 1;
  dispatcher().resize(2);
  dispatcher().pause("paused");
  for (int i = 0; i < 3; ++i) {
    const std::string session = "s" + std::to_string(i);
    while (submit(noting(session, session)) != SubmitStatus::Accepted) {
    }
  }
  EXPECT_TRUE(dispatcher().session("alice"));
  EXPECT_TRUE(dispatcher().session("occupier"));
  release.open();
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().active_sessions == 1; }));
  EXPECT_TRUE(dispatcher().session("paused"));
  EXPECT_TRUE(dispatcher().session("paused")->paused);
  dispatcher().resume("paused");
  EXPECT_TRUE(eventually([&] { return dispatcher().stats().active_sessions == 0; }));
}

TEST_F(MemoryTest, NoMoreResultsAreKeptThanConfigured) {
  config_.max_results = 10;
  config_.queue_size = 0;
  start();
  for (int i = 0; i < 100; ++i) submit(noting(std::to_string(i), "alice"));
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  const auto known = [&] {
    int count = 0;
    for (int i = 0; i < 100; ++i) {
      count += dispatcher().status(std::to_string(i)) != TaskStatus::Unknown ? 1 : 0;
    }
    return count;
  };
  // The last ones are let go a moment after the task that pushed them out.
  EXPECT_TRUE(eventually([&] { return known() <= 10; }));
  EXPECT_EQ(known(), 10);
  EXPECT_EQ(dispatcher().status("99"), TaskStatus::Done);
  EXPECT_EQ(dispatcher().status("89"), TaskStatus::Unknown);
  // What is forgotten may come again.
  EXPECT_EQ(submit(noting("0", "alice")), SubmitStatus::Accepted);
  EXPECT_EQ(submit(noting("99", "alice")), SubmitStatus::DuplicateId);
}

TEST_F(MemoryTest, NoResultIsKeptIfNoneIsWanted) {
  config_.max_results = 0;
  start();
  submit(noting("a", "alice"));
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_TRUE(eventually([&] { return dispatcher().status("a") == TaskStatus::Unknown; }));
}

TEST_F(MemoryTest, ResultsAreForgottenAfterTheirTime) {
  config_.result_retention = std::chrono::milliseconds(1);
  start();
  for (int i = 0; i < 20; ++i) submit(noting(std::to_string(i), "alice"));
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  for (int i = 0; i < 20; ++i) {
    EXPECT_TRUE(
        eventually([&] { return dispatcher().status(std::to_string(i)) == TaskStatus::Unknown; }));
  }
}

TEST_F(MemoryTest, APayloadIsDestroyedWhenItsTaskHasFinishedThoughTheResultIsKept) {
  start();
  struct Guard {
    explicit Guard(Latch latch) : destroyed(std::move(latch)) {}
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() { destroyed.open(); }
    Latch destroyed;
  };
  const Latch ran = latch();
  const Latch cancelled = latch();
  const Latch release = occupy();
  submit({.id = "a1", .session_id = "alice", .payload = std::make_shared<Guard>(cancelled)});
  Task second = noting("a2", "alice");
  second.payload = Work([guard = std::make_shared<Guard>(ran)](const Task&, const auto&) {
    return TaskOutcome::ok();
  });
  submit(std::move(second));
  ASSERT_TRUE(dispatcher().cancel("a1"));
  EXPECT_TRUE(cancelled.wait(kLong / 10));
  release.open();
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_TRUE(ran.wait(kLong / 10));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Cancelled);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Done);
}

TEST_F(MemoryTest, ATaskCostsAtMostOneAllocation) {
#ifdef NIMBUS_COUNTS_NOTHING
  GTEST_SKIP() << "nothing is counted here";
#endif
  config_.max_results = 100;
  config_.queue_size = 0;
  Dispatcher plain(config_, [](const Task&, const std::stop_token&) { return TaskOutcome::ok(); });
  constexpr std::size_t kTasks = 10'000;
  // In rounds that leave no backlog: what waits must be somewhere.
  const auto submitAll = [&](int begin) {
    for (std::size_t i = 0; i < kTasks; ++i) {
      Task task;
      task.session_id = "session";
      if (i % 2 == 0) task.id = std::to_string(static_cast<std::size_t>(begin) + i);
      ASSERT_EQ(plain.submit(std::move(task)), SubmitStatus::Accepted);
      if (i % 100 == 99) ASSERT_TRUE(plain.drain("session", kLong));
    }
  };
  submitAll(1'000'000);
  const std::size_t before = g_allocations;
  submitAll(2'000'000);
  // The drains and the clock's leaps cost a little, too.
  EXPECT_LE(g_allocations - before, kTasks + kTasks / 50);
  plain.shutdown();
}

TEST_F(MemoryTest, NamesOfAnyLengthAreGivenBack) {
#ifdef NIMBUS_COUNTS_NOTHING
  GTEST_SKIP() << "nothing is counted here";
#endif
  config_.max_results = 10;
  Dispatcher plain(config_, [](const Task&, const std::stop_token&) { return TaskOutcome::ok(); });
  const auto submitAll = [&](int round) {
    for (int i = 0; i < 1000; ++i) {
      for (const std::size_t length : {16U, 20U, 36U, 100U}) {
        Task task;
        task.session_id = std::string(length, 's');
        if (i % 2 == 0) {
          task.id = std::to_string(round) + "-" + std::to_string(i) + std::string(length, 'i');
        }
        ASSERT_EQ(plain.submit(std::move(task)), SubmitStatus::Accepted);
        ASSERT_TRUE(plain.drain(std::string(length, 's'), kLong));
      }
    }
  };
  submitAll(1);
  const std::size_t before = g_bytes;
  submitAll(2);
  submitAll(3);
  EXPECT_LE(g_bytes, before + 10'000);  // 8,000 tasks; some of the last ones are still on their way
  plain.shutdown();
}

// What a handler answers after its time is up is of no use to anybody, but it too may do anything.
TEST_F(MemoryTest, WhatIsAnsweredInVainIsDestroyedWithoutALockToo) {
  config_.task_timeout = std::chrono::milliseconds(1);
  config_.stop_grace = std::chrono::milliseconds(1);
  config_.retry = {.max_attempts = 2, .backoff = Duration::zero()};
  start();
  static std::atomic<int> destroyed;
  destroyed = 0;
  struct Caller {
    Dispatcher* dispatcher;
    ~Caller() {
      dispatcher->stats();
      ++destroyed;
    }
  };
  submit(makeTask("a", "alice", [this](const Task&, const std::stop_token& stop) {
    waitForStop(stop);
    return TaskOutcome::ok(std::make_shared<Caller>(&dispatcher()));
  }));
  EXPECT_EQ(errorOf("a"), TaskError::Code::TimedOut);
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_TRUE(eventually([] { return destroyed == 2; }));
}

// What a task takes with it may do anything when it goes: no lock is held then.
TEST_F(MemoryTest, WhatIsDestroyedWithATaskMayCallTheDispatcher) {
  config_.max_results = 1;
  config_.queue_size = 0;
  start();
  static std::atomic<bool> alive;
  alive = true;
  struct Caller {
    Dispatcher* dispatcher;
    int number;
    ~Caller() {
      if (!alive) return;  // the last one goes with its dispatcher
      dispatcher->cancel("b" + std::to_string(number));
      dispatcher->stats();
    }
  };
  const Latch release = occupy();
  constexpr int kTasks = 2000;
  for (int i = 0; i < kTasks; ++i) {
    const std::string number = std::to_string(i);
    auto caller = std::make_shared<Caller>(&dispatcher(), i);
    submit(makeTask("a" + number, "alice", [caller](const Task&, const std::stop_token&) {
      return TaskOutcome::ok(caller);
    }));
    submit(noting("b" + number, "bob"));
  }
  release.open();
  EXPECT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_TRUE(dispatcher().drain("bob", kLong));
  dispatcher().shutdown();
  alive = false;
}

}  // namespace
}  // namespace nimbus::dispatch
