#include "events/turns.h"

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

// How far stamps may run ahead of the clock: as many changes as in so many milliseconds have one of
// their own, however fast they come.
constexpr Timestamp::rep kMostAhead = 50;

}  // namespace

Timestamp Turns::stamp(Timestamp now, Timestamp before) {
  const Timestamp::rep clock = now.time_since_epoch().count();
  Timestamp::rep last = last_stamp_.load(std::memory_order_relaxed);
  Timestamp::rep next = 0;
  do {
    next = std::max(clock, std::min(last + 1, clock + kMostAhead));
  } while (!last_stamp_.compare_exchange_weak(last, next, std::memory_order_relaxed));
  return std::max(Timestamp(Millis(next)), before);
}

Turns::Turn::Turn(Turn&& other) noexcept
    : turns_(std::exchange(other.turns_, nullptr)),
      name_(std::move(other.name_)),
      place_(other.place_) {}

Turns::Turn::~Turn() {
  if (turns_ == nullptr) return;
  const std::lock_guard lock(turns_->mutex_);
  const auto line = turns_->lines_.find(name_);
  const bool was_first = place_ == line->second.begin();
  line->second.erase(place_);
  if (line->second.empty()) {
    turns_->lines_.erase(line);
  } else if (was_first) {
    line->second.front().set();
  }
}

Task<Result<Turns::Turn>> Turns::take(std::string name) {
  Line::iterator place;
  {
    const std::lock_guard lock(mutex_);
    Line& line = lines_[name];
    if (line.size() > kMaxWaiting) {
      co_return Error(Code::QueueFull, "too many changes of this session are waiting; try again")
          .with("retry_after_ms", std::int64_t{1000});
    }
    place = line.emplace(line.end());
    if (place == line.begin()) place->set();
  }
  Turn turn(*this, std::move(name), place);
  if (!place->isSet()) co_await place->wait();
  co_return turn;
}

}  // namespace nimbus::events
