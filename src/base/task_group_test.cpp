#include "base/task_group.h"

#include "base/log.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace nimbus {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;

class TaskGroupTest : public ::testing::Test {
 protected:
  // Counts itself out when it ends, however it ends.
  struct Ended {
    explicit Ended(int& into) : count(into) {}
    ~Ended() { ++count; }
    int& count;
  };

  Task<> waitFor(asio::steady_timer& timer) {
    const Ended ended(ended_);
    co_await timer.async_wait(asio::use_awaitable);
    ++completed_;
  }
  Task<> waitForever() {
    const Ended ended(ended_);
    asio::steady_timer never(io_, asio::steady_timer::time_point::max());
    co_await never.async_wait(asio::use_awaitable);
    ++completed_;
  }
  Task<> fail(std::string why) {
    const Ended ended(ended_);
    throw std::runtime_error(why);
    co_return;
  }
  Task<> addAnother(TaskGroup& group) {
    group.add(waitForever());
    co_return;
  }
  Task<> joinGroup(TaskGroup& group) {
    co_await group.join();
    joined_ = true;
  }

  void join() {
    asio::co_spawn(io_, joinGroup(group_), asio::detached);
    settle();
  }
  void settle() {
    io_.restart();
    io_.poll();
  }

  asio::io_context io_;
  TaskGroup group_{io_.get_executor(), "the test"};
  int ended_ = 0;
  int completed_ = 0;
  bool joined_ = false;
};

TEST_F(TaskGroupTest, AnEmptyGroupIsJoinedAtOnce) {
  join();
  EXPECT_TRUE(joined_);
}

TEST_F(TaskGroupTest, JoinWaitsForTheLastTaskAndDoesNotHurryIt) {
  asio::steady_timer first(io_, asio::steady_timer::time_point::max());
  asio::steady_timer second(io_, asio::steady_timer::time_point::max());
  group_.add(waitFor(first));
  group_.add(waitFor(second));
  join();
  EXPECT_EQ(group_.running(), 2U);

  first.expires_at(asio::steady_timer::time_point::min());  // aborts the wait: the task fails
  settle();
  EXPECT_EQ(group_.running(), 1U);
  EXPECT_FALSE(joined_);

  second.cancel();
  settle();
  EXPECT_TRUE(joined_);
  EXPECT_EQ(group_.running(), 0U);
}

TEST_F(TaskGroupTest, ATaskThatIsDoneLeavesTheGroup) {
  asio::steady_timer due(io_, asio::steady_timer::time_point::min());
  group_.add(waitFor(due));
  settle();
  EXPECT_EQ(completed_, 1);
  EXPECT_EQ(group_.running(), 0U);
  EXPECT_EQ(group_.failed(), 0U);
}

TEST_F(TaskGroupTest, CancelEndsEveryTaskAndIsNoFailure) {
  for (int i = 0; i < 100; ++i) group_.add(waitForever());
  settle();
  group_.cancel();
  join();
  EXPECT_TRUE(joined_);
  EXPECT_EQ(ended_, 100);
  EXPECT_EQ(completed_, 0);
  EXPECT_EQ(group_.failed(), 0U);
}

TEST_F(TaskGroupTest, ATaskIsCancelledEvenIfItHadNoTimeToBegin) {
  group_.add(waitForever());
  group_.cancel();
  join();
  EXPECT_TRUE(joined_);
  EXPECT_EQ(completed_, 0);
}

TEST_F(TaskGroupTest, ATaskAddedAfterCancelEndsAtItsFirstWait) {
  group_.cancel();
  group_.add(waitForever());
  join();
  EXPECT_TRUE(joined_);
  EXPECT_EQ(completed_, 0);
}

TEST_F(TaskGroupTest, ATaskMayAddAnotherAndJoinWaitsForBoth) {
  group_.add(addAnother(group_));
  join();
  EXPECT_FALSE(joined_);
  EXPECT_EQ(group_.running(), 1U);
  group_.cancel();
  settle();
  EXPECT_TRUE(joined_);
}

TEST_F(TaskGroupTest, AFailingTaskIsLoggedAndCountedAndHarmsNoOther) {
  log::configure(log::Level::Info, log::Format::Json);
  ::testing::internal::CaptureStderr();
  group_.add(waitForever());
  group_.add(fail("the disk is gone"));
  settle();
  const std::string written = ::testing::internal::GetCapturedStderr();

  EXPECT_EQ(group_.failed(), 1U);
  EXPECT_EQ(group_.running(), 1U);
  EXPECT_THAT(written, HasSubstr("the disk is gone"));
  EXPECT_THAT(written, HasSubstr(R"("owner":"the test")"));

  group_.cancel();
  join();
  EXPECT_TRUE(joined_);
}

TEST_F(TaskGroupTest, EveryoneWhoJoinsIsTold) {
  group_.add(waitForever());
  int joined = 0;
  for (int i = 0; i < 3; ++i) {
    asio::co_spawn(io_, joinGroup(group_), [&](const std::exception_ptr&) { ++joined; });
  }
  settle();
  EXPECT_EQ(joined, 0);
  group_.cancel();
  settle();
  EXPECT_EQ(joined, 3);
}

TEST(TaskGroupDeathTest, DestroyingAGroupWithRunningTasksIsABug) {
  EXPECT_DEATH(
      {
        asio::io_context io;
        asio::steady_timer never(io, asio::steady_timer::time_point::max());
        TaskGroup group(io.get_executor(), "the test");
        group.add([](asio::steady_timer& timer) -> Task<> {
          co_await timer.async_wait(asio::use_awaitable);
        }(never));
      },
      "destroyed with tasks running");
}

}  // namespace
}  // namespace nimbus
