#include "dispatch/job_index.h"

#include "dispatch/job_shelf.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace nimbus::dispatch {
namespace {

std::size_t bucketsFor(std::size_t jobs) {
  constexpr std::size_t kFewest = 1024;
  constexpr std::size_t kMost = std::size_t{1} << 22U;
  return std::bit_ceil(std::clamp(jobs, kFewest, kMost));
}

// Runs destructors of the user's: not to be called under a lock.
void letGo(Job* chain) {
  for (Job* job = chain; job != nullptr; job = job->link) job->reset();
  JobShelf::giveBack(chain);
}

}  // namespace

JobIndex::JobIndex(std::size_t expected_jobs, std::uint64_t seed)
    : seed_(seed),
      mask_(bucketsFor(expected_jobs) - 1),
      buckets_(new std::atomic<Job*>[mask_ + 1]()) {}

JobIndex::~JobIndex() {
  for (Stripe& stripe : stripes_) letGo(takeUnseen(stripe));
  for (std::size_t i = 0; i <= mask_; ++i) {
    Job* job = buckets_[i].load(std::memory_order_relaxed);
    while (job != nullptr) {
      Job* const next = job->next_in_bucket.load(std::memory_order_relaxed);
      job->link = nullptr;
      letGo(std::exchange(job, next));
    }
  }
}

Job* JobIndex::findIn(Job* job, std::uint64_t hash, std::string_view id) {
  while (job != nullptr && (job->id_hash != hash || job->task.id != id)) {
    job = job->next_in_bucket.load(std::memory_order_acquire);
  }
  return job;
}

bool JobIndex::add(Job& job) {
  job.id_hash = hashOf(job.task.id, seed_);
  // What is pinned cannot come back as another job, so an unchanged head is an unchanged chain.
  const Pin pin(stripeOf(job.id_hash).pins);
  std::atomic<Job*>& bucket = bucketOf(job.id_hash);
  Job* first = bucket.load(std::memory_order_acquire);
  do {
    if (findIn(first, job.id_hash, job.task.id) != nullptr) return false;
    job.next_in_bucket.store(first, std::memory_order_relaxed);
  } while (!bucket.compare_exchange_weak(first, &job, std::memory_order_acq_rel,
                                         std::memory_order_acquire));
  return true;
}

void JobIndex::remove(Job& job) {
  Stripe& stripe = stripeOf(job.id_hash);
  std::unique_lock lock(stripe.mutex);
  std::atomic<Job*>& bucket = bucketOf(job.id_hash);
  Job* const next = job.next_in_bucket.load(std::memory_order_relaxed);
  Job* seen = &job;
  if (!bucket.compare_exchange_strong(seen, next, std::memory_order_acq_rel)) {
    // Additions change the head only: the chain behind it is ours.
    while (seen->next_in_bucket.load(std::memory_order_relaxed) != &job) {
      seen = seen->next_in_bucket.load(std::memory_order_relaxed);
    }
    seen->next_in_bucket.store(next, std::memory_order_release);
  }
  job.link = std::exchange(stripe.removed, &job);
  Job* const unseen = takeUnseen(stripe);
  lock.unlock();
  letGo(unseen);
}

Job* JobIndex::takeUnseen(Stripe& stripe) {
  return stripe.pins.isQuiet() ? std::exchange(stripe.removed, nullptr) : nullptr;
}

}  // namespace nimbus::dispatch
