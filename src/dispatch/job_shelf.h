#pragma once
// Jobs that wait to be used again. A job is made on the thread that submits, and done with on a
// worker's: it goes back to the shelf of the thread that made it, so that memory does not wander
// and the allocator's locks are left alone.

#include "dispatch/job.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nimbus::dispatch {

class JobShelf {
 public:
  // A job as new, from the shelf of this thread.
  static Job* take();

  // Jobs that nobody looks at any more, linked, each as Job::reset() leaves it.
  static void giveBack(Job* chain);
  static void giveBackOne(Job& job) {
    job.link = nullptr;
    giveBack(&job);
  }

 private:
  // What a shelf holds at most; the rest is freed.
  static constexpr std::uint32_t kMost = 1024;

  class Ticket;

  static JobShelf* acquire();
  static void abandon(JobShelf* shelf);
  static JobShelf& ofThisThread();
  static JobShelf& nobodys();

  Job* takeOne();

  Job* front_ = nullptr;  // the thread's own
  JobShelf* next_unused_ = nullptr;
  alignas(kCacheLine) std::atomic<Job*> returned_ = nullptr;  // by other threads
  std::atomic<std::uint32_t> size_ = 0;
};

// Jobs that are done with, until they are given back together.
class Spent {
 public:
  Spent() = default;
  ~Spent() { giveBack(); }
  Spent(const Spent&) = delete;
  Spent& operator=(const Spent&) = delete;

  void add(Job& job) {
    job.link = first_;
    first_ = &job;
    if (++count_ == kTogether) giveBack();
  }
  void giveBack() {
    JobShelf::giveBack(first_);
    first_ = nullptr;
    count_ = 0;
  }

 private:
  static constexpr std::uint32_t kTogether = 64;

  Job* first_ = nullptr;
  std::uint32_t count_ = 0;
};

}  // namespace nimbus::dispatch
