#pragma once

#include "base/steady_clock.h"

#include <atomic>

namespace nimbus {

// Stands still until a test moves it. Any thread may read it.
class ManualSteadyClock final : public SteadyClock {
 public:
  SteadyTime now() const override { return now_.load(); }
  void advance(std::chrono::nanoseconds by) { now_.store(now_.load() + by); }

 private:
  // As if the machine had run for a while: whoever takes the clock's zero for a time is found out.
  std::atomic<SteadyTime> now_ = SteadyTime(std::chrono::hours(100));
};

}  // namespace nimbus
