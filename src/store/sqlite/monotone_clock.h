#pragma once

#include "base/clock.h"

#include <algorithm>
#include <atomic>

namespace nimbus::store::sqlite {

// A clock that never goes back. When the one beneath it is set back, time stands still until that
// has caught up: what has expired stays expired, and no commit is older than the one before it.
class MonotoneClock final : public Clock {
 public:
  // `clock` must outlive this.
  explicit MonotoneClock(const Clock& clock) : clock_(clock), latest_(clock.now()) {}

  // Any thread.
  Timestamp now() const override {
    const Timestamp now = clock_.now();
    Timestamp latest = latest_.load();
    while (latest < now && !latest_.compare_exchange_weak(latest, now)) continue;
    return std::max(latest, now);
  }

 private:
  const Clock& clock_;
  mutable std::atomic<Timestamp> latest_;
};

}  // namespace nimbus::store::sqlite
