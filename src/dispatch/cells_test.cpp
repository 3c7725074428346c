// Memory for sessions, and jobs that are used again.

#include "dispatch/cells.h"

#include "dispatch/job_shelf.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

TEST(CellsTest, EveryCellIsALineOfItsOwnWhateverComesAndGoes) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Cells cells;
  std::vector<char*> used;
  const auto fill = [](char* cell) { return static_cast<char>(std::hash<char*>()(cell) >> 6U); };
  for (int step = 0; step < 50'000; ++step) {
    // Now more come, now more go, down to none.
    const bool grows = (step / 5000) % 2 == 0;
    if (used.empty() || random() % 10 < (grows ? 7U : 3U)) {
      auto* const cell = static_cast<char*>(cells.take());
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(cell) % Cells::kCellSize, 0U);
      std::memset(cell, fill(cell), Cells::kCellSize);
      used.push_back(cell);
      continue;
    }
    std::swap(used[random() % used.size()], used.back());
    char* const cell = used.back();
    used.pop_back();
    for (std::size_t i = 0; i < Cells::kCellSize; ++i) ASSERT_EQ(cell[i], fill(cell));
    cells.giveBack(cell);
  }
  EXPECT_EQ(std::set<char*>(used.begin(), used.end()).size(), used.size());
  for (char* const cell : used) cells.giveBack(cell);
}

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
