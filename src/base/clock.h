#pragma once
// Time comes in through a Clock&, never from a global, so that tests own it.

#include <chrono>

namespace nimbus {

using Millis = std::chrono::milliseconds;

// A moment of wall-clock time, in UTC milliseconds: what APIs show and stores keep.
using Timestamp = std::chrono::sys_time<Millis>;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual Timestamp now() const = 0;
};

class SystemClock final : public Clock {
 public:
  Timestamp now() const override {
    return std::chrono::floor<Millis>(std::chrono::system_clock::now());
  }
};

}  // namespace nimbus
