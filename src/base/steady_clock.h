#pragma once
// Time for measuring how long something takes or may take. It never jumps, unlike what a Clock
// shows, and means nothing outside this process. It too comes in by reference, so that tests own
// it.

#include <chrono>
#include <ctime>

namespace nimbus {

using SteadyTime = std::chrono::steady_clock::time_point;

// Any thread may ask.
class SteadyClock {
 public:
  virtual ~SteadyClock() = default;
  virtual SteadyTime now() const = 0;
  // A few milliseconds behind, and almost free: for deadlines that every request sets.
  virtual SteadyTime roughly() const { return now(); }
};

class SystemSteadyClock final : public SteadyClock {
 public:
  SteadyTime now() const override { return std::chrono::steady_clock::now(); }
  SteadyTime roughly() const override {
    timespec time{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
    return SteadyTime(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
  }
};

}  // namespace nimbus
