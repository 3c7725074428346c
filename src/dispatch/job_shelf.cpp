#include "dispatch/job_shelf.h"

#include <mutex>
#include <utility>

namespace nimbus::dispatch {
namespace {

// Shelves outlive their threads, because jobs on their way back refer to them; the next thread that
// comes takes one over. They are never freed: there are as many as there were threads at once.
struct UnusedShelves {
  std::mutex mutex;
  JobShelf* first = nullptr;
};

UnusedShelves& unusedShelves() {
  static auto* const kShelves = new UnusedShelves;
  return *kShelves;
}

}  // namespace

namespace {
// Whether this thread has ended as far as shelves go: a destructor of one of its variables may
// still submit.
thread_local bool t_has_left = false;
}  // namespace

class JobShelf::Ticket {
 public:
  Ticket() : shelf_(acquire()) {}
  ~Ticket() {
    t_has_left = true;
    abandon(shelf_);
  }
  Ticket(const Ticket&) = delete;
  Ticket& operator=(const Ticket&) = delete;

  JobShelf& shelf() { return *shelf_; }

 private:
  JobShelf* shelf_;
};

JobShelf* JobShelf::acquire() {
  UnusedShelves& unused = unusedShelves();
  const std::lock_guard lock(unused.mutex);
  if (unused.first == nullptr) return new JobShelf;
  return std::exchange(unused.first, unused.first->next_unused_);
}

void JobShelf::abandon(JobShelf* shelf) {
  UnusedShelves& unused = unusedShelves();
  const std::lock_guard lock(unused.mutex);
  shelf->next_unused_ = std::exchange(unused.first, shelf);
}

JobShelf& JobShelf::ofThisThread() {
  thread_local Ticket ticket;
  return ticket.shelf();
}

// For jobs that belong on no thread's shelf: it is always full.
JobShelf& JobShelf::nobodys() {
  static JobShelf* const kShelf = [] {
    auto* const shelf = new JobShelf;
    shelf->size_ = kMost;
    return shelf;
  }();
  return *kShelf;
}

Job* JobShelf::take() {
  if (!t_has_left) return ofThisThread().takeOne();
  auto* const job = new Job;
  job->shelf = &nobodys();
  return job;
}

Job* JobShelf::takeOne() {
  if (front_ == nullptr) {
    if (returned_.load(std::memory_order_relaxed) != nullptr) {
      front_ = returned_.exchange(nullptr, std::memory_order_acquire);
    }
    if (front_ == nullptr) {
      auto* const job = new Job;
      job->shelf = this;
      return job;
    }
    size_.store(0, std::memory_order_relaxed);
  }
  Job* const job = std::exchange(front_, front_->link);
  if (front_ != nullptr) __builtin_prefetch(front_, 1);
  job->link = nullptr;
  return job;
}

void JobShelf::giveBack(Job* chain) {
  while (chain != nullptr) {
    // Neighbours mostly come from one thread: they go back together.
    Job* last = chain;
    std::uint32_t count = 1;
    while (last->link != nullptr && last->link->shelf == chain->shelf) {
      last = last->link;
      ++count;
    }
    Job* const rest = last->link;
    JobShelf& shelf = *chain->shelf;
    if (shelf.size_.load(std::memory_order_relaxed) >= kMost) {
      last->link = nullptr;
      while (chain != nullptr) delete std::exchange(chain, chain->link);
    } else {
      shelf.size_.fetch_add(count, std::memory_order_relaxed);
      Job* seen = shelf.returned_.load(std::memory_order_relaxed);
      do {
        last->link = seen;
      } while (!shelf.returned_.compare_exchange_weak(seen, chain, std::memory_order_release,
                                                      std::memory_order_relaxed));
    }
    chain = rest;
  }
}

}  // namespace nimbus::dispatch
