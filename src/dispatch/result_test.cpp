// What is known of a task, by its id.

#include "dispatch/testing/fixture.h"

#include <atomic>
#include <cstdlib>

namespace nimbus::dispatch {
namespace {

class ResultTest : public DispatchTest {};

TEST_F(ResultTest, EveryStateOfATaskIsToldApart) {
  start();
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Unknown);
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(failing("a2", "alice"));
  submit(noting("a3", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Running);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_FALSE(dispatcher().result("a1"));
  EXPECT_FALSE(dispatcher().result("a2"));
  dispatcher().cancel("a3");
  EXPECT_EQ(dispatcher().status("a3"), TaskStatus::Cancelled);
  release.open();
  resultOf("a2");
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Done);
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Failed);
  EXPECT_TRUE(dispatcher().result("a1")->ok());
  EXPECT_FALSE(dispatcher().result("a2")->ok());
  EXPECT_EQ(dispatcher().result("a3")->error->code, TaskError::Code::Cancelled);
  EXPECT_EQ(dispatcher().status("nobody"), TaskStatus::Unknown);
  EXPECT_FALSE(dispatcher().result("nobody"));
}

TEST_F(ResultTest, AnIdIsRefusedWhileItIsKnown) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  for (const char* id : {"a1", "a2"}) {
    Task again = noting(id, "bob");
    EXPECT_EQ(dispatcher().submit(std::move(again)), SubmitStatus::DuplicateId);
    EXPECT_EQ(again.id, id);
    EXPECT_EQ(again.session_id, "bob");
    EXPECT_EQ(again.created_at, std::chrono::system_clock::time_point());
    EXPECT_TRUE(again.payload.has_value());
  }
  release.open();
  resultOf("a2");
  EXPECT_EQ(submit(noting("a1", "bob")), SubmitStatus::DuplicateId);
  EXPECT_EQ(dispatcher().stats().queued_tasks, 0U);
  EXPECT_EQ(dispatcher().session("bob")->unfinished_tasks, 0U);
}

TEST_F(ResultTest, OfManyThatSubmitTheSameIdOneIsAccepted) {
  start();
  const Latch release = occupy();
  for (int round = 0; round < 50; ++round) {
    const std::string id = "r" + std::to_string(round);
    std::atomic<int> accepted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&] {
        if (submit(noting(id, "alice")) == SubmitStatus::Accepted) ++accepted;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(accepted, 1);
  }
  EXPECT_EQ(dispatcher().stats().queued_tasks, 50U);
  release.open();
}

TEST_F(ResultTest, WaitingEndsWithTheTask) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  std::vector<std::thread> waiters;
  std::atomic<int> ok = 0;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      const auto result = dispatcher().wait("a1", kLong);
      if (result && result->ok()) ++ok;
    });
  }
  ASSERT_TRUE(journal_.waitFor("a1"));
  release.open();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(ok, 3);
  EXPECT_TRUE(dispatcher().wait("a1", Duration::zero()));
}

TEST_F(ResultTest, WaitingEndsWithThePatience) {
  start();
  const Latch release = occupy();
  EXPECT_FALSE(dispatcher().wait("occupied", std::chrono::milliseconds(1)));
  EXPECT_FALSE(dispatcher().wait("occupied", Duration::zero()));
  EXPECT_FALSE(dispatcher().wait("nobody", kLong));
  release.open();
  EXPECT_TRUE(dispatcher().wait("occupied", Duration::max()));
}

TEST_F(ResultTest, AResultIsThereWhenItsCallbackIsCalled) {
  start();
  std::atomic<int> there = 0;
  dispatcher().onResult([&](const TaskResult& result) {
    if (dispatcher().result(result.task_id)) ++there;
  });
  for (int i = 0; i < 100; ++i) submit(noting(std::to_string(i), "alice"));
  ASSERT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_EQ(there, 100);
}

// A value is the user's: copying it may do anything, even ask the dispatcher.
TEST_F(ResultTest, CopyingAValueMayCallTheDispatcher) {
  start();
  struct Curious {
    explicit Curious(Dispatcher& d) : dispatcher(&d) {}
    Curious(const Curious& other) : dispatcher(other.dispatcher) { ask(); }
    Curious(Curious&&) noexcept = default;
    void ask() const { EXPECT_FALSE(dispatcher->wait("nobody", Duration::zero())); }
    Dispatcher* dispatcher;
  };
  submit(makeTask("a1", "alice", [this](const Task&, const std::stop_token&) {
    return TaskOutcome::ok(std::make_any<Curious>(dispatcher()));
  }));
  const Latch asked = latch();
  std::thread asker([&] {
    EXPECT_TRUE(dispatcher().wait("a1", kLong));
    asked.open();
  });
  const bool in_time = asked.wait();
  EXPECT_TRUE(in_time);
  if (in_time) {
    asker.join();
  } else {
    std::abort();  // it will not end
  }
}

}  // namespace
}  // namespace nimbus::dispatch
