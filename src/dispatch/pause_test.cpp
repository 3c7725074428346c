// Pausing, resuming and draining one session.

#include "dispatch/testing/fixture.h"

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class PauseTest : public DispatchTest {};

TEST_F(PauseTest, APausedSessionAcceptsTasksAndStartsNone) {
  start();
  dispatcher().pause("alice");
  EXPECT_TRUE(dispatcher().session("alice")->paused);
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  submit(noting("b1", "bob"));
  EXPECT_TRUE(resultOf("b1").ok());
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Pending);
  EXPECT_EQ(dispatcher().session("alice")->unfinished_tasks, 2U);
  dispatcher().resume("alice");
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_FALSE(dispatcher().session("alice")->paused);
  EXPECT_THAT(journal_.entries(), ElementsAre("b1", "a1", "a2"));
}

TEST_F(PauseTest, WhatRunsGoesOnAndTheNextWaits) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  dispatcher().pause("alice");
  release.open();
  EXPECT_TRUE(resultOf("a1").ok());
  submit(noting("b1", "bob"));
  resultOf("b1");
  EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Pending);
  EXPECT_FALSE(journal_.has("a2"));
  dispatcher().resume("alice");
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(PauseTest, ASessionThatHadItsTurnComingStartsNothingEither) {
  start();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(noting("b1", "bob"));
  dispatcher().stats();  // both are in their lines now, and ready
  dispatcher().pause("alice");
  release.open();
  resultOf("b1");
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "b1"));
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Pending);
  dispatcher().resume("alice");
  EXPECT_TRUE(resultOf("a1").ok());
}

TEST_F(PauseTest, APausedTaskCanBeCancelled) {
  start();
  dispatcher().pause("alice");
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  EXPECT_TRUE(dispatcher().cancel("a1"));
  dispatcher().resume("alice");
  resultOf("a2");
  EXPECT_THAT(journal_.entries(), ElementsAre("a2"));
}

TEST_F(PauseTest, APauseIsNotLostWhereNoSessionHasRoom) {
  config_.max_sessions = 1;
  start();
  const Latch release = occupy();
  EXPECT_EQ(submit(noting("b1", "bob")), SubmitStatus::TooManySessions);
  dispatcher().pause("bob");
  EXPECT_TRUE(dispatcher().session("bob")->paused);
  EXPECT_EQ(submit(noting("b1", "bob")), SubmitStatus::Accepted);
  release.open();
  resultOf("occupied");
  EXPECT_EQ(dispatcher().status("b1"), TaskStatus::Pending);
  dispatcher().resume("bob");
  EXPECT_TRUE(resultOf("b1").ok());
}

TEST_F(PauseTest, PausingAndResumingTwiceIsDoingItOnce) {
  start();
  dispatcher().pause("alice");
  dispatcher().pause("alice");
  submit(noting("a1", "alice"));
  dispatcher().resume("alice");
  dispatcher().resume("alice");
  dispatcher().resume("nobody");
  EXPECT_TRUE(resultOf("a1").ok());
  EXPECT_FALSE(dispatcher().session("nobody"));
}

TEST_F(PauseTest, APausedSessionIsNotForgotten) {
  config_.session_idle_time = Duration::zero();
  start();
  dispatcher().pause("alice");
  submit(noting("b1", "bob"));
  ASSERT_TRUE(eventually([&] { return !dispatcher().session("bob").has_value(); }));
  ASSERT_TRUE(dispatcher().session("alice"));
  EXPECT_TRUE(dispatcher().session("alice")->paused);
  dispatcher().resume("alice");
  EXPECT_TRUE(eventually([&] { return !dispatcher().session("alice").has_value(); }));
}

TEST_F(PauseTest, TasksOfAPausedSessionAreHandedBackByAShutdownAtOnce) {
  start();
  dispatcher().pause("alice");
  submit(noting("a1", "alice"));
  submit(noting("a2", "alice"));
  submit(noting("b1", "bob"));
  const ShutdownReport report = dispatcher().shutdown(kLong);
  EXPECT_THAT(report.not_run, ElementsAre("a1", "a2"));
  EXPECT_EQ(dispatcher().status("b1"), TaskStatus::Done);
  EXPECT_EQ(dispatcher().status("a1"), TaskStatus::Cancelled);
}

TEST_F(PauseTest, ATaskThatFailsWhileAPausedSessionIsShutDownIsHandedBackFirst) {
  config_.retry = {.max_attempts = 2, .backoff = Duration::zero()};
  start();
  const Latch release = latch();
  submit(makeTask("a1", "alice", [&, release](const Task&, const std::stop_token&) {
    journal_.add("a1");
    release.wait();
    return TaskOutcome::fail("");
  }));
  submit(noting("a2", "alice"));
  submit(noting("a3", "alice"));
  ASSERT_TRUE(journal_.waitFor("a1"));
  dispatcher().pause("alice");
  std::thread releaser([&, release] {
    // Once the others were taken out.
    EXPECT_TRUE(eventually([&] { return dispatcher().stats().total_not_run == 2; }));
    release.open();
  });
  const ShutdownReport report = dispatcher().shutdown(std::chrono::seconds(2));
  releaser.join();
  EXPECT_THAT(report.not_run, ElementsAre("a1", "a2", "a3"));
}

TEST_F(PauseTest, AfterAShutdownPausingDoesNothing) {
  start();
  dispatcher().shutdown();
  dispatcher().pause("alice");
  dispatcher().resume("alice");
  EXPECT_FALSE(dispatcher().session("alice"));
}

TEST_F(PauseTest, DrainingWaitsForTheLastTask) {
  start();
  const Latch release = latch();
  submit(blocking("a1", "alice", release));
  submit(noting("a2", "alice"));
  EXPECT_FALSE(dispatcher().drain("alice", Duration::zero()));
  EXPECT_FALSE(dispatcher().drain("alice", std::chrono::milliseconds(1)));
  std::thread drainer([&] {
    EXPECT_TRUE(dispatcher().drain("alice", Duration::max()));
    EXPECT_EQ(dispatcher().status("a2"), TaskStatus::Done);
  });
  release.open();
  drainer.join();
}

TEST_F(PauseTest, DrainingWhatHasNoTasksReturnsAtOnce) {
  start();
  EXPECT_TRUE(dispatcher().drain("nobody", Duration::zero()));
  submit(noting("a1", "alice"));
  resultOf("a1");
  EXPECT_TRUE(dispatcher().drain("alice", kLong));
  EXPECT_TRUE(dispatcher().drain("alice", Duration::zero()));
}

TEST_F(PauseTest, DrainingEndsWhenTheLastTaskIsCancelled) {
  start();
  dispatcher().pause("alice");
  submit(noting("a1", "alice"));
  std::thread drainer([&] { EXPECT_TRUE(dispatcher().drain("alice", kLong)); });
  EXPECT_TRUE(dispatcher().cancel("a1"));
  drainer.join();
}

}  // namespace
}  // namespace nimbus::dispatch
