// Jobs that are used again.

#include "dispatch/job_shelf.h"

#include <gmock/gmock.h>

#include <atomic>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

TEST(JobShelfTest, AJobComesBackToTheThreadThatMadeItAsNew) {
  Job* const job = JobShelf::take();
  job->task.id = "a";
  job->holds_memory = true;
  job->attempts = 3;
  job->value = 1;
  job->stuck = true;
  std::thread([job] {
    job->reset();
    JobShelf::giveBackOne(*job);
  }).join();
  // It may stand behind others that were there before.
  std::vector<Job*> taken;
  while (taken.size() < 5000 && (taken.empty() || taken.back() != job)) {
    taken.push_back(JobShelf::take());
  }
  ASSERT_EQ(taken.back(), job);
  EXPECT_EQ(job->attempts, 0U);
  EXPECT_EQ(job->phase(), Phase::Queued);
  EXPECT_FALSE(job->value.has_value());
  EXPECT_FALSE(job->stuck);
  EXPECT_EQ(job->link, nullptr);
  for (Job* const one : taken) JobShelf::giveBackOne(*one);
}

TEST(JobShelfTest, AJobIsNeverInTwoHands) {
  constexpr int kRounds = 3000;
  std::vector<std::atomic<int>> sums(2);
  const auto work = [&](std::size_t me) {
    Spent spent;
    std::vector<Job*> mine;
    for (int i = 0; i < kRounds; ++i) {
      Job* const job = JobShelf::take();
      EXPECT_EQ(job->attempts, 0U);
      job->attempts = 1;
      mine.push_back(job);
      if (mine.size() < 100) continue;
      for (Job* const one : mine) {
        EXPECT_EQ(one->attempts, 1U);
        one->reset();
        spent.add(*one);
        ++sums[me];
      }
      mine.clear();
    }
    for (Job* const one : mine) {
      one->reset();
      spent.add(*one);
    }
  };
  std::thread other([&] { work(1); });
  work(0);
  other.join();
  EXPECT_EQ(sums[0], sums[1]);
}

}  // namespace
}  // namespace nimbus::dispatch
