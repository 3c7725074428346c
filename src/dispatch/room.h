#pragma once
// Where submitters wait until there is room, first come, first served.

#include "dispatch/clock.h"

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>

namespace nimbus::dispatch {

class Room {
 public:
  // Whether anybody waits. Who has made room looks here, and calls made() if so.
  bool isAwaited() const { return waiting_.load(std::memory_order_relaxed) != 0; }

  std::size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  void made() {
    {
      const std::lock_guard lock(mutex_);
      ++changes_;
    }
    changed_.notify_all();
  }

  // Lets `attempt` try when this caller's turn has come, and again whenever room was made, until it
  // returns true or the time is over. The caller is announced before the first attempt, so room
  // made after a failed one is not missed.
  template <typename Attempt>
  void waitInLine(Instant until, Attempt&& attempt) {
    std::unique_lock lock(mutex_);
    const auto me = line_.insert(line_.end(), Place());
    waiting_.store(line_.size(), std::memory_order_relaxed);
    while (true) {
      const std::uint64_t seen = changes_;
      if (line_.begin() == me) {
        lock.unlock();
        const bool done = attempt();
        lock.lock();
        if (done) break;
      }
      if (Clock::now() >= until) break;
      if (changes_ == seen) changed_.wait_until(lock, until);
    }
    line_.erase(me);
    waiting_.store(line_.size(), std::memory_order_relaxed);
    ++changes_;  // the next in line has its turn now
    lock.unlock();
    changed_.notify_all();
  }

 private:
  struct Place {};

  std::atomic<std::size_t> waiting_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Place> line_;
  std::uint64_t changes_ = 0;
};

}  // namespace nimbus::dispatch
