// A task that fails is a result like any other.

#include "dispatch/testing/fixture.h"

#include <stdexcept>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FailureTest : public DispatchTest {
 protected:
  Task throwing(std::string id, std::string session) {
    return makeTask(std::move(id), std::move(session),
                    [](const Task&, const std::stop_token&) -> TaskOutcome {
                      throw std::runtime_error("broken");
                    });
  }

  void noteEnds() {
    dispatcher().onResult([this](const TaskResult& result) {
      journal_.add(result.task_id + (result.ok() ? " done" : " failed"));
    });
  }
};

TEST_F(FailureTest, WhatAHandlerAnswersIsTheResult) {
  start();
  submit(makeTask("a", "alice", [](const Task&, const std::stop_token&) {
    return TaskOutcome::ok(std::string("fine"));
  }));
  const TaskResult result = resultOf("a");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.task_id, "a");
  EXPECT_EQ(result.session_id, "alice");
  EXPECT_EQ(std::any_cast<std::string>(result.value), "fine");
  EXPECT_EQ(result.attempts, 1U);
  EXPECT_GE(result.duration, Duration::zero());
}

TEST_F(FailureTest, AnExceptionBecomesAFailedResultAndTheWorkerGoesOn) {
  start();
  submit(throwing("a1", "alice"));
  submit(noting("a2", "alice"));
  const TaskResult result = resultOf("a1");
  EXPECT_EQ(result.error->code, TaskError::Code::Threw);
  EXPECT_EQ(result.error->message, "broken");
  EXPECT_FALSE(result.value.has_value());
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(FailureTest, AThrowOfSomethingElseIsAFailureToo) {
  start();
  submit(
      makeTask("a", "alice", [](const Task&, const std::stop_token&) -> TaskOutcome { throw 42; }));
  submit(noting("a2", "alice"));
  EXPECT_EQ(errorOf("a"), TaskError::Code::Threw);
  EXPECT_FALSE(resultOf("a").error->message.empty());
  EXPECT_TRUE(resultOf("a2").ok());
}

TEST_F(FailureTest, FailAndRejectSayWhy) {
  start();
  submit(failing("f", "alice", "not today"));
  submit(makeTask("r", "alice", [](const Task&, const std::stop_token&) {
    return TaskOutcome::reject("never");
  }));
  EXPECT_EQ(errorOf("f"), TaskError::Code::Failed);
  EXPECT_EQ(resultOf("f").error->message, "not today");
  EXPECT_EQ(errorOf("r"), TaskError::Code::Failed);
  EXPECT_EQ(resultOf("r").error->message, "never");
  EXPECT_EQ(dispatcher().status("f"), TaskStatus::Failed);
}

TEST_F(FailureTest, EveryEndIsReportedOnceBeforeTheNextTaskOfTheSessionStarts) {
  start();
  noteEnds();
  const Latch release = occupy();
  submit(noting("a1", "alice"));
  submit(failing("a2", "alice"));
  submit(noting("a3", "alice"));
  release.open();
  ASSERT_TRUE(journal_.waitFor("a3 done"));
  EXPECT_THAT(journal_.entries(), ElementsAre("occupied", "occupied done", "a1", "a1 done", "a2",
                                              "a2 failed", "a3", "a3 done"));
}

TEST_F(FailureTest, ErrorsAreReportedToTheErrorCallbackAfterTheResultCallback) {
  start();
  noteEnds();
  dispatcher().onError([this](const TaskResult& result) {
    EXPECT_FALSE(result.ok());
    journal_.add(result.task_id + " error");
  });
  submit(noting("a1", "alice"));
  submit(failing("a2", "alice"));
  submit(throwing("a3", "alice"));
  ASSERT_TRUE(journal_.waitFor("a3 error"));
  EXPECT_THAT(journal_.entries(),
              ElementsAre("a1", "a1 done", "a2", "a2 failed", "a2 error", "a3 failed", "a3 error"));
}

TEST_F(FailureTest, TheErrorCallbackAloneIsEnough) {
  start();
  dispatcher().onError([this](const TaskResult& result) { journal_.add(result.task_id); });
  submit(failing("", "alice"));
  submit(throwing("x", "alice"));
  ASSERT_TRUE(journal_.waitFor("x"));
  EXPECT_THAT(journal_.entries(), ElementsAre("", "", "x"));
}

TEST_F(FailureTest, ACallbackThatThrowsIsLoggedAndHarmsNobody) {
  Journal log;
  config_.log_level = LogLevel::Warning;
  config_.log = [log](const LogEvent& event) {
    log.add(std::string(event.what) + " " + std::string(event.task_id) + " " +
            std::string(event.detail));
  };
  start();
  dispatcher().onResult([](const TaskResult&) { throw std::runtime_error("bad callback"); });
  dispatcher().onError([this](const TaskResult& result) {
    journal_.add(result.task_id + " error");
    throw 1;
  });
  submit(failing("a1", "alice"));
  submit(noting("a2", "alice"));
  EXPECT_FALSE(resultOf("a1").ok());
  EXPECT_TRUE(resultOf("a2").ok());
  ASSERT_TRUE(log.waitFor("callback threw a2 bad callback"));
  EXPECT_TRUE(log.has("callback threw a1 bad callback"));
  EXPECT_TRUE(journal_.has("a1 error"));
}

TEST_F(FailureTest, BothCallbacksStayWhenTheyAreSetAtTheSameTime) {
  for (int i = 0; i < 200; ++i) {
    start();
    std::thread other(
        [&] { dispatcher().onError([this](const TaskResult&) { journal_.add("error"); }); });
    dispatcher().onResult([this](const TaskResult&) { journal_.add("result"); });
    other.join();
    const std::size_t before = journal_.size();
    submit(makeTask("", "alice", [](const auto&, const auto&) { return TaskOutcome::fail(""); }));
    ASSERT_TRUE(dispatcher().drain("alice", kLong));
    const auto all = journal_.entries();
    ASSERT_EQ(all.size(), before + 2) << "one of the callbacks was lost";
  }
}

TEST_F(FailureTest, ACallbackMaySubmit) {
  start();
  dispatcher().onError([this](const TaskResult& result) {
    if (result.task_id == "a1") submit(noting("again", result.session_id));
  });
  submit(failing("a1", "alice"));
  ASSERT_TRUE(journal_.waitFor("again"));
  EXPECT_TRUE(resultOf("again").ok());
}

TEST_F(FailureTest, ATaskWithoutIdRunsAndIsReportedButCannotBeAskedFor) {
  start();
  noteEnds();
  submit(noting("", "alice"));
  ASSERT_TRUE(journal_.waitFor(" done"));
  EXPECT_EQ(dispatcher().status(""), TaskStatus::Unknown);
  EXPECT_FALSE(dispatcher().result(""));
  EXPECT_FALSE(dispatcher().cancel(""));
}

TEST_F(FailureTest, TheHandlerSeesTheTaskAsItWasSubmitted) {
  start();
  Task seen;
  const auto before = std::chrono::system_clock::now() - std::chrono::seconds(1);
  Task task = makeTask("a", "alice", [&](const Task& t, const std::stop_token&) {
    seen.id = t.id;
    seen.session_id = t.session_id;
    seen.created_at = t.created_at;
    seen.priority = t.priority;
    return TaskOutcome::ok();
  });
  task.priority = 2;
  EXPECT_EQ(dispatcher().submit(task), SubmitStatus::Accepted);  // a copy
  EXPECT_EQ(task.id, "a");
  resultOf("a");
  EXPECT_EQ(seen.id, "a");
  EXPECT_EQ(seen.session_id, "alice");
  EXPECT_EQ(seen.priority, 2);
  EXPECT_GE(seen.created_at, before);
  EXPECT_LE(seen.created_at, std::chrono::system_clock::now() + std::chrono::seconds(1));

  task.id = "b";
  task.created_at = std::chrono::system_clock::time_point(std::chrono::hours(1));
  submit(task);
  resultOf("b");
  EXPECT_EQ(seen.created_at, task.created_at);
}

TEST(TextTest, EveryStatusHasAName) {
  for (const SubmitStatus status :
       {SubmitStatus::Accepted, SubmitStatus::QueueFull, SubmitStatus::TooManySessions,
        SubmitStatus::Stopped, SubmitStatus::DuplicateId, SubmitStatus::UnknownDependency,
        SubmitStatus::DependencyCycle}) {
    EXPECT_NE(toString(status), "?");
  }
  for (const TaskStatus status : {TaskStatus::Pending, TaskStatus::Running, TaskStatus::Done,
                                  TaskStatus::Failed, TaskStatus::Cancelled, TaskStatus::Unknown}) {
    EXPECT_NE(toString(status), "?");
  }
  for (const TaskError::Code code :
       {TaskError::Code::Failed, TaskError::Code::Threw, TaskError::Code::TimedOut,
        TaskError::Code::Cancelled, TaskError::Code::DependencyFailed}) {
    EXPECT_NE(toString(code), "?");
  }
  EXPECT_EQ(toString(static_cast<TaskStatus>(99)), "?");
  EXPECT_EQ(toString(static_cast<SubmitStatus>(99)), "?");
  EXPECT_EQ(toString(static_cast<TaskError::Code>(99)), "?");
}

// Callbacks get a copy of the result, and copying the value may throw.
TEST_F(FailureTest, AValueThatCannotBeCopiedHarmsNobody) {
  struct Value {
    Value() = default;
    Value(Value&&) = default;
    Value(const Value&) { throw std::runtime_error("not to be copied"); }
  };
  Journal log;
  config_.log_level = LogLevel::Warning;
  config_.log = [log](const LogEvent& event) {
    log.add(std::string(event.what) + ": " + std::string(event.detail));
  };
  start();
  dispatcher().onResult([](const TaskResult&) {});
  submit(makeTask("a1", "alice", [](const Task&, const std::stop_token&) {
    return TaskOutcome::ok(std::any(std::in_place_type<Value>));
  }));
  submit(noting("a2", "alice"));
  EXPECT_TRUE(resultOf("a2").ok());
  EXPECT_TRUE(log.has("callback threw: not to be copied"));
}

}  // namespace
}  // namespace nimbus::dispatch
