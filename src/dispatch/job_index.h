#pragma once
// Jobs by task id: those that wait or run, and those whose result is kept. Adding one takes no
// lock; only forgetting one locks a stripe.
//
// The number of buckets is fixed by how many jobs there can be, so nothing ever moves: additions
// exchange the head of a chain, and only removals, under the lock, touch the inside of one.

#include "dispatch/hash.h"
#include "dispatch/job.h"
#include "dispatch/pins.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>

namespace nimbus::dispatch {

class JobIndex {
 public:
  JobIndex(std::size_t expected_jobs, std::uint64_t seed);
  ~JobIndex();
  JobIndex(const JobIndex&) = delete;
  JobIndex& operator=(const JobIndex&) = delete;

  // False if there is one with this id.
  bool add(Job& job);

  // Calls `look` with the job and returns true, or returns false. The job stays valid meanwhile.
  template <typename Look>
  bool find(std::string_view id, Look&& look) {
    const std::uint64_t hash = hashOf(id, seed_);
    const Pin pin(stripeOf(hash).pins);
    Job* const job = findIn(bucketOf(hash).load(std::memory_order_acquire), hash, id);
    if (job == nullptr) return false;
    look(*job);
    return true;
  }

  // Takes over a job that has ended. It is let go of once nobody looks at it any more.
  void remove(Job& job);

 private:
  static constexpr std::size_t kStripes = 256;

  struct alignas(kCacheLine) Stripe {
    PinCounter pins;
    std::mutex mutex;
    Job* removed = nullptr;  // a chain; a reader may still look at them
  };

  // What can be let go of now, linked.
  static Job* takeUnseen(Stripe& stripe);
  static Job* findIn(Job* first, std::uint64_t hash, std::string_view id);
  // All jobs of a bucket belong to one stripe: the lowest bits choose both.
  Stripe& stripeOf(std::uint64_t hash) { return stripes_[hash % kStripes]; }
  std::atomic<Job*>& bucketOf(std::uint64_t hash) { return buckets_[hash & mask_]; }

  const std::uint64_t seed_;
  const std::size_t mask_;
  const std::unique_ptr<std::atomic<Job*>[]> buckets_;
  std::array<Stripe, kStripes> stripes_;
};

}  // namespace nimbus::dispatch
