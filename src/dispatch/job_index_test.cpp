// Jobs by id, added and found without a lock while others are forgotten.

#include "dispatch/job_index.h"

#include "dispatch/job_shelf.h"

#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

class JobIndexTest : public ::testing::Test {
 protected:
  struct GiveBack {
    void operator()(Job* job) const {
      job->reset();
      JobShelf::giveBack(job);
    }
  };

  // The payload tells when it is destroyed.
  std::unique_ptr<Job, GiveBack> named(std::string id) {
    std::unique_ptr<Job, GiveBack> job(JobShelf::take());
    job->task.id = std::move(id);
    job->holds_memory = true;
    job->task.payload = std::shared_ptr<void>(nullptr, [this](void*) { ++freed_; });
    return job;
  }

  bool knows(const std::string& id) {
    return index_.find(id, [&](const Job& job) { EXPECT_EQ(job.task.id, id); });
  }

  std::atomic<int> freed_ = 0;
  JobIndex index_{1, 3};
};

TEST_F(JobIndexTest, FindsWhatWasAddedUntilItIsRemoved) {
  Job& a = *named("a").release();
  Job& b = *named("b").release();
  EXPECT_FALSE(knows("a"));
  EXPECT_TRUE(index_.add(a));
  EXPECT_TRUE(index_.add(b));
  EXPECT_TRUE(knows("a"));
  EXPECT_TRUE(knows("b"));
  index_.remove(a);
  EXPECT_FALSE(knows("a"));
  EXPECT_TRUE(knows("b"));
  EXPECT_EQ(freed_, 1);
}

TEST_F(JobIndexTest, AnIdCanBeThereOnce) {
  Job& first = *named("a").release();
  const auto second = named("a");
  EXPECT_TRUE(index_.add(first));
  EXPECT_FALSE(index_.add(*second));
  index_.remove(first);
  EXPECT_TRUE(index_.add(*named("a").release()));
}

TEST_F(JobIndexTest, LongChainsLoseNobodyWhicheverIsRemoved) {
  constexpr std::size_t kMany = 20'000;  // in 1024 buckets
  std::vector<Job*> jobs;
  for (std::size_t i = 0; i < kMany; ++i) {
    jobs.push_back(named(std::to_string(i)).release());
    ASSERT_TRUE(index_.add(*jobs.back()));
  }
  for (std::size_t i = 0; i < kMany; i += 3) index_.remove(*jobs[i]);
  for (std::size_t i = 0; i < kMany; ++i) ASSERT_EQ(knows(std::to_string(i)), i % 3 != 0) << i;
}

TEST_F(JobIndexTest, AJobStaysValidWhileItIsLookedAt) {
  Job& a = *named("a").release();
  index_.add(a);
  index_.find("a", [&](Job& job) {
    index_.remove(job);
    EXPECT_EQ(freed_, 0);
    EXPECT_EQ(job.task.id, "a");
    EXPECT_FALSE(knows("a"));
  });
}

// Nobody's destructor runs under the lock of a stripe.
TEST_F(JobIndexTest, FreeingAJobMayRemoveAnother) {
  std::vector<Job*> rest;
  const auto removeAnother = [&](void*) {
    if (rest.empty()) return;
    Job* const next = rest.back();
    rest.pop_back();
    index_.remove(*next);
  };
  std::vector<Job*> jobs;
  for (int i = 0; i < 1000; ++i) {
    jobs.push_back(named(std::to_string(i)).release());
    jobs.back()->task.payload = std::shared_ptr<void>(nullptr, removeAnother);
    index_.add(*jobs.back());
  }
  rest.assign(jobs.begin() + 1, jobs.end());
  index_.remove(*jobs[0]);
  EXPECT_TRUE(rest.empty());
}

TEST_F(JobIndexTest, ThreadsThatAddFindAndRemoveDoNotDisturbEachOther) {
  constexpr int kRounds = 4000;
  std::atomic<bool> done = false;
  const auto addAndRemove = [&](const std::string& prefix) {
    std::vector<Job*> mine;
    for (int i = 0; i < kRounds; ++i) {
      Job* const job = named(prefix + std::to_string(i)).release();
      ASSERT_TRUE(index_.add(*job));
      mine.push_back(job);
      ASSERT_TRUE(knows(job->task.id));
      if (mine.size() < 50) continue;
      const std::string id = mine.front()->task.id;
      index_.remove(*mine.front());
      mine.erase(mine.begin());
      ASSERT_FALSE(knows(id));
    }
  };
  std::thread reader([&] {
    for (int i = 0; !done; i = (i + 1) % kRounds) {
      knows("a" + std::to_string(i));
      knows("b" + std::to_string(i));
    }
  });
  std::thread other([&] { addAndRemove("a"); });
  addAndRemove("b");
  other.join();
  done = true;
  reader.join();
}

TEST_F(JobIndexTest, OfThreadsThatAddTheSameIdOneWins) {
  for (int i = 0; i < 500; ++i) {
    const std::string id = std::to_string(i);
    std::atomic<int> wins = 0;
    const auto tryIt = [&] {
      auto job = named(id);
      if (!index_.add(*job)) return;
      job.release();
      ++wins;
    };
    std::thread other(tryIt);
    tryIt();
    other.join();
    ASSERT_EQ(wins, 1);
  }
}

}  // namespace
}  // namespace nimbus::dispatch
