#pragma once

#include "base/clock.h"

#include <atomic>

namespace nimbus {

// Stands still until a test moves it. Any thread may read it.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(Timestamp start = Timestamp(Millis(1'700'000'000'000))) : now_(start) {}

  Timestamp now() const override { return now_.load(); }
  void advance(Millis by) { now_.store(now_.load() + by); }

 private:
  std::atomic<Timestamp> now_;
};

}  // namespace nimbus
