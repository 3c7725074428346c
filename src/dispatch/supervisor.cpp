#include "dispatch/supervisor.h"

#include <algorithm>
#include <utility>

namespace nimbus::dispatch {

Supervisor::Supervisor(std::function<Instant(Instant)> attend)
    : attend_(std::move(attend)), thread_([this] { run(); }) {}

void Supervisor::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Supervisor::bringForward(Instant at) {
  {
    const std::lock_guard lock(mutex_);
    if (at.time_since_epoch() >= next_.load(std::memory_order_relaxed)) return;
    next_.store(at.time_since_epoch(), std::memory_order_relaxed);
  }
  changed_.notify_one();
}

void Supervisor::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    // From here on every notice counts: it may come after attend() has looked.
    next_.store(never().time_since_epoch());
    lock.unlock();
    const Instant again = attend_(Clock::now());
    lock.lock();
    next_.store(std::min(next_.load(std::memory_order_relaxed), again.time_since_epoch()),
                std::memory_order_relaxed);
    while (!stopping_) {
      const Instant next(next_.load(std::memory_order_relaxed));
      if (Clock::now() >= next) break;
      changed_.wait_until(lock, next);
    }
  }
}

}  // namespace nimbus::dispatch
