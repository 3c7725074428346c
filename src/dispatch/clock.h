#pragma once

#include <chrono>
#include <cstdint>

namespace nimbus::dispatch {

using Clock = std::chrono::steady_clock;
using Instant = Clock::time_point;

// A moment so far away that it never comes; waiting functions can still calculate with it.
inline Instant never() {
  return Instant::max() - std::chrono::hours(24);
}

// `patience` may be as long as its type allows.
inline Instant after(Instant now, std::chrono::nanoseconds patience) {
  return patience >= never() - now ? never() : now + patience;
}

// Milliseconds, short enough to be kept per session; differences stay right when they wrap.
inline std::uint32_t tickOf(Instant now) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count());
}

}  // namespace nimbus::dispatch
