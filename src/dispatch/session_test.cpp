// A session, the line of its tasks, and the inbox through which they come.

#include "dispatch/session.h"

#include "dispatch/inbox.h"
#include "dispatch/line.h"
#include "dispatch/testing/fake_host.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

class SessionTest : public ::testing::Test {
 protected:
  FakeSessions sessions_;
  Session& session_ = sessions_.make("alice");
};

TEST_F(SessionTest, TheNameLiesWithTheSession) {
  EXPECT_EQ(session_.name(), "alice");
  EXPECT_EQ(sessions_.make("").name(), "");
  const std::string longer(300, 'x');
  EXPECT_EQ(sessions_.make(longer).name(), longer);
}

TEST_F(SessionTest, TheLimitIsExact) {
  EXPECT_TRUE(session_.admit(3, 3));
  EXPECT_FALSE(session_.admit(1, 3));
  session_.leave(1);
  EXPECT_FALSE(session_.admit(2, 3));
  EXPECT_TRUE(session_.admit(1, 3));
  EXPECT_EQ(session_.unfinished, 3U);
}

class IdleTimeTest : public SessionTest {
 protected:
  IdleTimeTest() { session_.last_use = tickOf(at(0)); }

  static Instant at(int milliseconds) {
    return Instant(std::chrono::hours(1000)) + std::chrono::milliseconds(milliseconds);
  }
  bool isWritten(Instant now) { return session_.last_use == tickOf(now); }
};

TEST_F(IdleTimeTest, IsOverNeverTooSoonAndNotMuchTooLate) {
  const IdleTime idle_time(std::chrono::milliseconds(1600));
  for (int used = 0; used < 1000; used += 7) {
    idle_time.noteUse(session_, at(used));
    ASSERT_FALSE(idle_time.isOver(session_, at(used + 1599)));
    ASSERT_TRUE(idle_time.isOver(session_, at(used + 1800)));
  }
}

TEST_F(IdleTimeTest, ASessionThatIsUsedAllTheTimeIsSeldomWritten) {
  const IdleTime idle_time(std::chrono::milliseconds(1600));
  idle_time.noteUse(session_, at(0));
  int written = 0;
  for (int now = 1; now <= 1000; ++now) {
    idle_time.noteUse(session_, at(now));
    idle_time.noteEnd(session_, at(now), at(now));
    written += isWritten(at(now)) ? 1 : 0;
  }
  EXPECT_GE(written, 5);
  EXPECT_LE(written, 10);
}

TEST_F(IdleTimeTest, WhatTakesLongCountsFromItsEnd) {
  const IdleTime idle_time(std::chrono::milliseconds(1600));
  idle_time.noteUse(session_, at(0));
  idle_time.noteEnd(session_, at(0), at(5000));
  EXPECT_FALSE(idle_time.isOver(session_, at(5000 + 1599)));
  EXPECT_TRUE(idle_time.isOver(session_, at(5000 + 1800)));
}

TEST_F(IdleTimeTest, NoTimeIsOverAtOnceAndAVeryLongOneIsNot) {
  const IdleTime none(Duration::zero());
  none.noteUse(session_, at(5));
  EXPECT_TRUE(none.isOver(session_, at(5)));
  EXPECT_FALSE(none.isOver(session_, at(4)));  // a clock read before the use
  const IdleTime longest(Duration::max());
  longest.noteUse(session_, at(5));
  EXPECT_FALSE(longest.isOver(session_, at(5) + std::chrono::hours(24)));
}

class LineTest : public ::testing::Test {
 protected:
  std::vector<int> numbers() const {
    std::vector<int> numbers;
    const Job* job = line_.head;
    while (job != nullptr) {
      numbers.push_back(static_cast<int>(job - jobs_.data()));
      job = job->next == line_.head ? nullptr : job->next;
    }
    return numbers;
  }

  Line line_;
  std::array<Job, 4> jobs_;
};

TEST_F(LineTest, KeepsItsOrderWhoeverLeaves) {
  for (Job& job : jobs_) line_.append(job);
  EXPECT_THAT(numbers(), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(jobs_[1].line, &line_);
  line_.unlink(jobs_[1]);
  EXPECT_THAT(numbers(), ElementsAre(0, 2, 3));
  line_.unlink(jobs_[0]);
  EXPECT_THAT(numbers(), ElementsAre(2, 3));
  line_.unlink(jobs_[3]);
  EXPECT_THAT(numbers(), ElementsAre(2));
  line_.append(jobs_[0]);
  EXPECT_THAT(numbers(), ElementsAre(2, 0));
  EXPECT_EQ(line_.size, 2U);
  line_.unlink(jobs_[2]);
  line_.unlink(jobs_[0]);
  EXPECT_EQ(line_.head, nullptr);
  EXPECT_EQ(line_.size, 0U);
  EXPECT_EQ(jobs_[0].line, nullptr);
}

TEST(LinesTest, FindsTheLineOfEachSessionWhileManyComeAndGo) {
  FakeSessions sessions;
  std::vector<Session*> all;
  for (int i = 0; i < 5000; ++i) all.push_back(&sessions.make(std::to_string(i)));
  Lines lines;
  for (Session* const session : all) {
    ASSERT_EQ(lines.find(*session), nullptr);
    Line& line = lines.begin(*session);
    ASSERT_EQ(line.session, session);
    ASSERT_EQ(line.head, nullptr);
  }
  EXPECT_EQ(lines.size(), all.size());
  std::size_t seen = 0;
  lines.forEach([&](const Line&) { ++seen; });
  EXPECT_EQ(seen, all.size());
  for (std::size_t i = 0; i < all.size(); i += 2) lines.end(*lines.find(*all[i]));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const Line* const line = lines.find(*all[i]);
    ASSERT_EQ(line == nullptr, i % 2 == 0);
    if (line != nullptr) ASSERT_EQ(line->session, all[i]);
  }
  for (std::size_t i = 1; i < all.size(); i += 2) lines.end(*lines.find(*all[i]));
  EXPECT_EQ(lines.size(), 0U);
}

TEST(LinesTest, ALineThatIsUsedAgainIsAsNew) {
  FakeSessions sessions;
  Lines lines;
  Line& first = lines.begin(sessions.make("a"));
  first.paused = true;
  first.since = Instant::max();
  lines.end(first);
  const Line& second = lines.begin(sessions.make("b"));
  EXPECT_FALSE(second.paused);
  EXPECT_EQ(second.since, Instant());
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
