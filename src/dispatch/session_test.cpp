// The gate of a session, the line of its tasks, and the inbox through which they come.

#include "dispatch/session.h"

#include "dispatch/inbox.h"
#include "dispatch/testing/fake_host.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

TEST(GateTest, CountsWhoEnteredAndHasNotLeft) {
  Gate gate;
  EXPECT_TRUE(gate.isIdle());
  EXPECT_EQ(gate.enter(1, 0), Gate::Entry::Entered);
  EXPECT_EQ(gate.enter(3, 0), Gate::Entry::Entered);
  EXPECT_EQ(gate.unfinished(), 4U);
  EXPECT_FALSE(gate.isIdle());
  gate.leave(3);
  gate.leave(1);
  EXPECT_TRUE(gate.isIdle());
}

TEST(GateTest, TheLimitIsExact) {
  Gate gate;
  EXPECT_EQ(gate.enter(3, 3), Gate::Entry::Entered);
  EXPECT_EQ(gate.enter(1, 3), Gate::Entry::Full);
  gate.leave(1);
  EXPECT_EQ(gate.enter(2, 3), Gate::Entry::Full);
  EXPECT_EQ(gate.enter(1, 3), Gate::Entry::Entered);
  EXPECT_EQ(gate.unfinished(), 3U);
}

TEST(GateTest, OnlyAnIdleSessionCanBeRetiredAndThenNobodyEnters) {
  Gate gate;
  gate.enter(1, 0);
  EXPECT_FALSE(gate.tryRetire());
  gate.leave(1);
  EXPECT_TRUE(gate.tryRetire());
  EXPECT_FALSE(gate.tryRetire());
  EXPECT_EQ(gate.enter(1, 0), Gate::Entry::Retired);
  EXPECT_EQ(gate.unfinished(), 0U);
}

TEST(GateTest, APausedSessionIsNotRetired) {
  Gate gate;
  gate.setPaused();
  EXPECT_TRUE(gate.isPaused());
  EXPECT_FALSE(gate.tryRetire());
  EXPECT_EQ(gate.enter(1, 1), Gate::Entry::Entered);
  EXPECT_EQ(gate.unfinished(), 1U);
  gate.leave(1);
  gate.clearPaused();
  EXPECT_FALSE(gate.isPaused());
  EXPECT_TRUE(gate.tryRetire());
}

TEST(GateTest, AHeldSessionIsNotRetiredThoughItsLastTaskHasLeft) {
  Gate gate;
  gate.enter(1, 0);
  gate.leaveHeld();
  EXPECT_EQ(gate.unfinished(), 0U);
  EXPECT_TRUE(gate.isHeld());
  EXPECT_FALSE(gate.tryRetire());
  gate.unhold();
  EXPECT_FALSE(gate.isHeld());
  EXPECT_TRUE(gate.tryRetire());
}

TEST(GateTest, OfOneThatEntersAndOneThatRetiresOneComesFirst) {
  constexpr std::size_t kGates = 20'000;
  std::vector<Gate> gates(kGates);
  std::vector<Gate::Entry> entries(kGates);
  std::vector<char> retired(kGates);
  std::thread other([&] {
    for (std::size_t i = 0; i < kGates; ++i) entries[i] = gates[i].enter(1, 0);
  });
  for (std::size_t i = kGates; i-- > 0;) retired[i] = gates[i].tryRetire() ? 1 : 0;
  other.join();
  for (std::size_t i = 0; i < kGates; ++i) {
    ASSERT_EQ(entries[i], retired[i] != 0 ? Gate::Entry::Retired : Gate::Entry::Entered);
  }
}

class LineTest : public ::testing::Test {
 protected:
  std::vector<int> numbers() const {
    std::vector<int> numbers;
    const Job* job = session_.head;
    while (job != nullptr) {
      numbers.push_back(static_cast<int>(job - jobs_.data()));
      job = job->next == session_.head ? nullptr : job->next;
    }
    return numbers;
  }

  FakeSessions sessions_;
  Session& session_ = sessions_.make("alice");
  std::array<Job, 4> jobs_;
};

TEST_F(LineTest, KeepsItsOrderWhoeverLeaves) {
  for (Job& job : jobs_) session_.append(job);
  EXPECT_THAT(numbers(), ElementsAre(0, 1, 2, 3));
  session_.unlink(jobs_[1]);
  EXPECT_THAT(numbers(), ElementsAre(0, 2, 3));
  session_.unlink(jobs_[0]);
  EXPECT_THAT(numbers(), ElementsAre(2, 3));
  session_.unlink(jobs_[3]);
  EXPECT_THAT(numbers(), ElementsAre(2));
  session_.append(jobs_[0]);
  EXPECT_THAT(numbers(), ElementsAre(2, 0));
  session_.unlink(jobs_[2]);
  session_.unlink(jobs_[0]);
  EXPECT_EQ(session_.head, nullptr);
  EXPECT_EQ(jobs_[0].next, nullptr);
}

TEST_F(LineTest, TheNameLiesWithTheSession) {
  EXPECT_EQ(session_.name(), "alice");
  EXPECT_EQ(sessions_.make("").name(), "");
  const std::string longer(300, 'x');
  EXPECT_EQ(sessions_.make(longer).name(), longer);
}

class InboxTest : public ::testing::Test {
 protected:
  Inbox inbox_;
  std::array<Job, 4> jobs_;

  std::vector<int> take() {
    std::vector<int> taken;
    for (Job* job = inbox_.takeAll(); job != nullptr; job = job->link) {
      taken.push_back(static_cast<int>(job - jobs_.data()));
    }
    return taken;
  }
};

TEST_F(InboxTest, GivesWhatCameOldestFirst) {
  EXPECT_EQ(inbox_.takeAll(), nullptr);
  for (Job& job : jobs_) EXPECT_FALSE(inbox_.push(job, job));
  EXPECT_FALSE(inbox_.isEmpty());
  EXPECT_THAT(take(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(inbox_.isEmpty());
}

TEST_F(InboxTest, AChainComesAsAWhole) {
  EXPECT_FALSE(inbox_.push(jobs_[0], jobs_[0]));
  jobs_[2].link = &jobs_[1];
  EXPECT_FALSE(inbox_.push(jobs_[2], jobs_[1]));
  EXPECT_FALSE(inbox_.push(jobs_[3], jobs_[3]));
  EXPECT_THAT(take(), ElementsAre(0, 1, 2, 3));
}

TEST_F(InboxTest, TheFirstPushOnASleeperMustWakeItAndNoOther) {
  EXPECT_TRUE(inbox_.fallAsleep());
  EXPECT_EQ(inbox_.takeAll(), nullptr);
  EXPECT_TRUE(inbox_.push(jobs_[0], jobs_[0]));
  EXPECT_FALSE(inbox_.push(jobs_[1], jobs_[1]));
  EXPECT_FALSE(inbox_.fallAsleep());
  EXPECT_FALSE(inbox_.rouse());
  EXPECT_THAT(take(), ElementsAre(0, 1));
}

TEST_F(InboxTest, RousingASleeperWakesItOnce) {
  EXPECT_FALSE(inbox_.rouse());
  EXPECT_TRUE(inbox_.fallAsleep());
  EXPECT_TRUE(inbox_.rouse());
  EXPECT_FALSE(inbox_.rouse());
  EXPECT_FALSE(inbox_.push(jobs_[0], jobs_[0]));
}

TEST_F(InboxTest, ManyThatPushLoseNothingAndKeepTheirOrder) {
  constexpr std::size_t kThreads = 3;
  constexpr std::size_t kEach = 3000;
  std::vector<std::vector<Job>> jobs;
  for (std::size_t t = 0; t < kThreads; ++t) jobs.emplace_back(kEach);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (Job& job : jobs[t]) (void)inbox_.push(job, job);
    });
  }
  std::vector<std::size_t> next(kThreads);
  std::size_t taken = 0;
  while (taken < kThreads * kEach) {
    for (Job* job = inbox_.takeAll(); job != nullptr;) {
      Job* const after = job->link;
      for (std::size_t t = 0; t < kThreads; ++t) {
        if (job < jobs[t].data() || job >= jobs[t].data() + kEach) continue;
        ASSERT_EQ(static_cast<std::size_t>(job - jobs[t].data()), next[t]++);
      }
      ++taken;
      job = after;
    }
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nimbus::dispatch
