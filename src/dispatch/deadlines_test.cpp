// The heap of deadlines, the supervisor that waits for the earliest, and turns of ready sessions.

#include "dispatch/deadlines.h"

#include "dispatch/ready_lines.h"
#include "dispatch/supervisor.h"
#include "dispatch/testing/fake_host.h"
#include "dispatch/testing/fixture.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <random>

namespace nimbus::dispatch {
namespace {

using ::testing::ElementsAre;

Instant at(int n) {
  return Instant(std::chrono::milliseconds(n));
}

TEST(DeadlinesTest, NothingIsDueIfThereIsNothing) {
  Deadlines deadlines;
  EXPECT_TRUE(deadlines.empty());
  EXPECT_EQ(deadlines.earliest(), never());
  EXPECT_EQ(deadlines.takeDue(never()), nullptr);
  Job job;
  deadlines.remove(job);
}

TEST(DeadlinesTest, WhatIsDueComesEarliestFirst) {
  Deadlines deadlines;
  std::array<Job, 3> jobs;
  deadlines.add(jobs[0], at(30));
  deadlines.add(jobs[1], at(10));
  deadlines.add(jobs[2], at(20));
  EXPECT_EQ(deadlines.earliest(), at(10));
  EXPECT_EQ(deadlines.takeDue(at(9)), nullptr);
  EXPECT_EQ(deadlines.takeDue(at(20)), &jobs[1]);
  EXPECT_EQ(deadlines.takeDue(at(20)), &jobs[2]);
  EXPECT_EQ(deadlines.takeDue(at(20)), nullptr);
  EXPECT_EQ(jobs[1].place_in_deadlines, Job::kNoPlace);
  deadlines.remove(jobs[0]);
  EXPECT_TRUE(deadlines.empty());
}

TEST(DeadlinesTest, BehaveAsASortedMapWould) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Deadlines deadlines;
  std::vector<Job> jobs(200);
  std::multimap<Instant, Job*> model;
  const auto inModel = [&](const Job* job) {
    return std::find_if(model.begin(), model.end(),
                        [&](const auto& entry) { return entry.second == job; });
  };
  for (int step = 0; step < 20'000; ++step) {
    Job& job = jobs[random() % jobs.size()];
    const auto known = inModel(&job);
    switch (random() % 4) {
      case 0:
      case 1:
        if (known != model.end()) break;
        {
          const Instant when = at(static_cast<int>(random() % 1000));
          deadlines.add(job, when);
          model.emplace(when, &job);
        }
        break;
      case 2:
        deadlines.remove(job);
        if (known != model.end()) model.erase(known);
        break;
      default: {
        const Instant now = at(static_cast<int>(random() % 1000));
        Job* const due = deadlines.takeDue(now);
        if (model.empty() || model.begin()->first > now) {
          ASSERT_EQ(due, nullptr);
        } else {
          const auto found = inModel(due);
          ASSERT_NE(found, model.end());
          ASSERT_EQ(found->first, model.begin()->first);
          model.erase(found);
        }
      }
    }
    ASSERT_EQ(deadlines.empty(), model.empty());
    ASSERT_EQ(deadlines.earliest(), model.empty() ? never() : model.begin()->first);
  }
}

TEST(SupervisorTest, AttendsWhenSomethingWasNoticedAndNotLater) {
  Journal attended;
  std::atomic<bool> first = true;
  Supervisor supervisor([&](Instant) {
    attended.add("attended");
    if (first.exchange(false)) return Clock::now();  // come again at once
    return never();
  });
  ASSERT_TRUE(attended.waitForSize(2));
  supervisor.notice(Clock::now() + std::chrono::hours(1));
  supervisor.notice(Clock::now());
  EXPECT_TRUE(attended.waitForSize(3));
  supervisor.notice(Clock::now() + std::chrono::hours(2));
  supervisor.notice(Clock::now() + std::chrono::milliseconds(1));
  EXPECT_TRUE(attended.waitForSize(4));
  supervisor.stop();
  supervisor.stop();
}

TEST(ClockTest, PatienceWithoutEndEnds) {
  const Instant now = Clock::now();
  EXPECT_EQ(after(now, Duration::max()), never());
  EXPECT_EQ(after(now, std::chrono::seconds(1)), now + std::chrono::seconds(1));
}

class ReadyLinesTest : public ::testing::Test {
 protected:
  Line& line(const std::string& name) { return lines_.begin(sessions_.make(name)); }

  std::string pop() {
    const Line* const next = ready_.pop();
    return next == nullptr ? "none" : std::string(next->session->name());
  }

  FakeSessions sessions_;
  Lines lines_;
  ReadyLines ready_;
};

TEST_F(ReadyLinesTest, FirstComeFirstServedWithinALevel) {
  EXPECT_EQ(pop(), "none");
  EXPECT_EQ(ready_.peek(), nullptr);
  for (const char* name : {"a", "b", "c"}) ready_.push(line(name), 0);
  EXPECT_EQ(ready_.peek()->session->name(), "a");
  EXPECT_EQ(pop(), "a");
  ready_.push(line("d"), 0);
  EXPECT_EQ((std::vector{pop(), pop(), pop(), pop()}),
            (std::vector<std::string>{"b", "c", "d", "none"}));
  EXPECT_TRUE(ready_.empty());
  ready_.push(line("e"), 0);
  EXPECT_EQ(pop(), "e");
}

TEST_F(ReadyLinesTest, HigherLevelsFirst) {
  ready_.push(line("low"), -3);
  ready_.push(line("lowest"), -9);
  ready_.push(line("high"), 3);
  ready_.push(line("highest"), 9);
  ready_.push(line("mid"), 0);
  std::vector<std::string> order;
  while (!ready_.empty()) order.push_back(pop());
  EXPECT_THAT(order, ElementsAre("high", "highest", "mid", "low", "lowest"));
}

TEST_F(ReadyLinesTest, EveryLevelHasATurnNowAndThen) {
  std::map<std::string, int> turns;
  for (int level = -3; level <= 3; ++level) ready_.push(line(std::to_string(level)), level);
  for (int i = 0; i < 16 * 7 * 10; ++i) {
    Line* const next = ready_.pop();
    ASSERT_NE(next, nullptr);
    const std::string name(next->session->name());
    ++turns[name];
    ready_.push(*next, std::stoi(name));
  }
  for (int level = -3; level <= 3; ++level) EXPECT_GE(turns[std::to_string(level)], 10) << level;
  EXPECT_GT(turns["3"], 16 * 7 * 9);
}

}  // namespace
}  // namespace nimbus::dispatch
