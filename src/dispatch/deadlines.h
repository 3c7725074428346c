#pragma once
// Which jobs want attention at what time: a heap whose members know their place in it, so that one
// that ends early is taken out at once.

#include "dispatch/job.h"

#include <cstddef>
#include <vector>

namespace nimbus::dispatch {

class Deadlines {
 public:
  bool empty() const { return heap_.empty(); }
  Instant earliest() const { return heap_.empty() ? never() : heap_.front().at; }

  void add(Job& job, Instant at) {
    heap_.push_back({at, &job});
    rise(heap_.size() - 1);
  }

  void remove(Job& job) {
    if (job.place_in_deadlines == Job::kNoPlace) return;
    const std::size_t place = job.place_in_deadlines;
    job.place_in_deadlines = Job::kNoPlace;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (last.job == &job) return;
    put(place, last);
    rise(place);
    sink(last.job->place_in_deadlines);
  }

  // One whose time has come, taken out; nothing if none.
  Job* takeDue(Instant now) {
    if (heap_.empty() || heap_.front().at > now) return nullptr;
    Job* const job = heap_.front().job;
    remove(*job);
    return job;
  }

 private:
  struct Entry {
    Instant at;
    Job* job;
  };

  void put(std::size_t place, Entry entry) {
    heap_[place] = entry;
    entry.job->place_in_deadlines = static_cast<std::uint32_t>(place);
  }

  void rise(std::size_t place) {
    const Entry entry = heap_[place];
    while (place > 0 && entry.at < heap_[(place - 1) / 2].at) {
      put(place, heap_[(place - 1) / 2]);
      place = (place - 1) / 2;
    }
    put(place, entry);
  }

  void sink(std::size_t place) {
    const Entry entry = heap_[place];
    while (true) {
      std::size_t child = 2 * place + 1;
      if (child >= heap_.size()) break;
      if (child + 1 < heap_.size() && heap_[child + 1].at < heap_[child].at) ++child;
      if (!(heap_[child].at < entry.at)) break;
      put(place, heap_[child]);
      place = child;
    }
    put(place, entry);
  }

  std::vector<Entry> heap_;
};

}  // namespace nimbus::dispatch
