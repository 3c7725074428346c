#pragma once
// Where submitters wait until there is room, first come, first served. There is a line for whoever
// waits for the worker, and one for each session that is full: they do not hold each other up.

#include "dispatch/clock.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>

namespace nimbus::dispatch {

class Room {
 public:
  // Whether anybody waits. Who has made room looks here, and calls made() if so. The fence: whoever
  // begins to wait is seen here, or sees the room (waitInLine() has the other one).
  bool isAwaited() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return waiting_.load(std::memory_order_relaxed) != 0;
  }

  // A hint: somebody who begins to wait at this moment may be missed.
  bool seemsAwaited() const { return waiting_.load(std::memory_order_relaxed) != 0; }

  std::size_t waiting() const { return waiting_.load(std::memory_order_relaxed); }

  void made() {
    {
      const std::lock_guard lock(mutex_);
      ++changes_;
    }
    changed_.notify_all();
  }

  // The line in which somebody waits already whom a submit to this session must not overtake.
  std::optional<std::uint64_t> lineBefore(std::uint64_t session) {
    if (!seemsAwaited()) return std::nullopt;
    const std::lock_guard lock(mutex_);
    for (const Place& place : places_) {
      if (place.line == kForTheWorker || place.line == session) return place.line;
    }
    return std::nullopt;
  }

  // The line of those who wait for the worker; others are named by the hash of their session.
  static constexpr std::uint64_t kForTheWorker = 0;

  // Lets `attempt` try when this caller is the first of its line, and again whenever room was made,
  // until it returns true or the time is over. The caller is announced before the first attempt, so
  // room made after a failed one is not missed.
  template <typename Attempt>
  void waitInLine(std::uint64_t line, Instant until, Attempt&& attempt) {
    std::unique_lock lock(mutex_);
    const auto me = places_.insert(places_.end(), Place{line});
    waiting_.store(places_.size(), std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const auto isFirst = [&] {
      return std::find_if(places_.begin(), me,
                          [&](const Place& place) { return place.line == line; }) == me;
    };
    while (true) {
      const std::uint64_t seen = changes_;
      if (isFirst()) {
        lock.unlock();
        const bool done = attempt();
        lock.lock();
        if (done) break;
      }
      if (Clock::now() >= until) break;
      if (changes_ == seen) changed_.wait_until(lock, until);
    }
    places_.erase(me);
    waiting_.store(places_.size(), std::memory_order_relaxed);
    ++changes_;  // the next in line has its turn now
    lock.unlock();
    changed_.notify_all();
  }

 private:
  struct Place {
    std::uint64_t line;
  };

  std::atomic<std::size_t> waiting_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Place> places_;  // of all lines, in the order in which they came
  std::uint64_t changes_ = 0;
};

}  // namespace nimbus::dispatch
