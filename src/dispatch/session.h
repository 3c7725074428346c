#pragma once
// A session that the dispatcher remembers: its name and its worker. What it has to do stands in a
// line at that worker (line.h); who submits only reads what is here, so that a session costs no
// cache line that wanders between processors.

#include "dispatch/clock.h"
#include "dispatch/pins.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace nimbus::dispatch {

class Worker;

// Sessions have numbers, see SessionStore.
using SessionNumber = std::uint32_t;
inline constexpr SessionNumber kNoSession = 0;

// One cache line, because there are many. A name that has no room in it lies elsewhere.
struct alignas(kCacheLine) Session {
  Worker* const worker;  // for life: a session that moves is forgotten and begun again
  SessionNumber const number;
  std::uint32_t const hash;
  std::uint32_t const name_size;
  std::atomic<std::uint32_t> last_use = 0;    // a tick, see IdleTime
  std::atomic<std::uint32_t> unfinished = 0;  // tasks; counted only where they are bounded
  std::atomic<bool> retiring = false;         // about to be forgotten, if nobody needs it

  Session(SessionNumber its_number, std::string_view name, std::uint32_t name_hash, Worker& home)
      : worker(&home),
        number(its_number),
        hash(name_hash),
        name_size(static_cast<std::uint32_t>(name.size())) {
    char* memory = room_.data();
    if (isLong()) {
      memory = new char[name.size()];
      std::memcpy(room_.data(), &memory, sizeof(memory));
    }
    std::copy(name.begin(), name.end(), memory);
  }
  ~Session() {
    if (isLong()) delete[] longName();
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::string_view name() const { return {isLong() ? longName() : room_.data(), name_size}; }

  bool admit(std::uint32_t tasks, std::uint64_t limit) {
    std::uint32_t seen = unfinished.load(std::memory_order_relaxed);
    do {
      if (seen + tasks > limit) return false;
    } while (!unfinished.compare_exchange_weak(seen, seen + tasks, std::memory_order_relaxed));
    return true;
  }
  void leave(std::uint32_t tasks) { unfinished.fetch_sub(tasks, std::memory_order_relaxed); }

 private:
  static constexpr std::size_t kRoom = 35;

  bool isLong() const { return name_size > kRoom; }
  char* longName() const {
    char* name = nullptr;
    std::memcpy(&name, room_.data(), sizeof(name));
    return name;
  }

  std::array<char, kRoom> room_;
};

// When a session has been without tasks for long enough. Its last use is written down with some
// tolerance: a session that is used all the time is seldom written, and none is forgotten too soon.
class IdleTime {
 public:
  explicit IdleTime(std::chrono::nanoseconds time)
      : ticks_(static_cast<std::uint32_t>(std::clamp<std::int64_t>(
            std::chrono::duration_cast<std::chrono::milliseconds>(time).count(), 0, kLongest))),
        tolerance_(ticks_ / 16) {}

  void noteUse(Session& session, Instant now) const {
    const std::uint32_t tick = tickOf(now);
    if (isWithin(session.last_use.load(std::memory_order_relaxed), tick, tolerance_)) return;
    session.last_use.store(tick, std::memory_order_relaxed);
  }

  // A use that began at `begin` has ended.
  void noteEnd(Session& session, Instant begin, Instant now) const {
    if (!isWithin(tickOf(begin), tickOf(now), tolerance_)) noteUse(session, now);
  }

  bool isOver(const Session& session, Instant now) const {
    const auto age =
        static_cast<std::int32_t>(tickOf(now) - session.last_use.load(std::memory_order_relaxed));
    return age >= 0 && static_cast<std::uint32_t>(age) >= ticks_ + 2 * tolerance_;
  }

 private:
  static constexpr std::int64_t kLongest = std::int64_t{1} << 30U;  // twelve days

  static bool isWithin(std::uint32_t before, std::uint32_t tick, std::uint32_t tolerance) {
    return static_cast<std::int32_t>(tick - before) <= static_cast<std::int32_t>(tolerance);
  }

  const std::uint32_t ticks_;
  const std::uint32_t tolerance_;
};

}  // namespace nimbus::dispatch
