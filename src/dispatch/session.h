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
#include <memory>
#include <new>
#include <string>
#include <string_view>

namespace nimbus::dispatch {

class Worker;

// Sessions have numbers, see SessionStore.
using SessionNumber = std::uint32_t;
inline constexpr SessionNumber kNoSession = 0;

// One cache line, because there are many. A name that has no room in it lies elsewhere.
class alignas(kCacheLine) Session {
  using LongName = std::unique_ptr<const std::string>;

  // What the rest leaves of the cache line: enough for a UUID.
  static constexpr std::size_t kRoom = 38;

 public:
  Worker* const worker;  // for life: a session that moves is forgotten and begun again

 private:
  alignas(LongName) std::array<char, kRoom> room_;
  std::uint8_t const size_;  // of a name that fits; one more than there is room for others

 public:
  std::atomic<bool> retiring = false;  // about to be forgotten, if nobody needs it
  SessionNumber const number;
  std::uint32_t const hash;
  std::atomic<std::uint32_t> last_use = 0;    // a tick, see IdleTime
  std::atomic<std::uint32_t> unfinished = 0;  // tasks; counted only where they are bounded

  Session(SessionNumber its_number, std::string_view name, std::uint32_t name_hash, Worker& home)
      : worker(&home),
        size_(static_cast<std::uint8_t>(std::min(name.size(), kRoom + 1))),
        number(its_number),
        hash(name_hash) {
    if (isLong()) {
      new (room_.data()) LongName(std::make_unique<std::string>(name));
    } else {
      std::copy(name.begin(), name.end(), room_.data());
    }
  }
  ~Session() {
    if (isLong()) std::destroy_at(longName());
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  std::string_view name() const {
    if (isLong()) return **longName();
    return {room_.data(), size_};
  }

  bool admit(std::uint32_t tasks, std::uint64_t limit) {
    std::uint32_t seen = unfinished.load(std::memory_order_relaxed);
    do {
      if (seen + tasks > limit) return false;
    } while (!unfinished.compare_exchange_weak(seen, seen + tasks, std::memory_order_relaxed));
    return true;
  }
  void leave(std::uint32_t tasks) { unfinished.fetch_sub(tasks, std::memory_order_relaxed); }

 private:
  bool isLong() const { return size_ > kRoom; }
  LongName* longName() { return std::launder(reinterpret_cast<LongName*>(room_.data())); }
  const LongName* longName() const {
    return std::launder(reinterpret_cast<const LongName*>(room_.data()));
  }
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
