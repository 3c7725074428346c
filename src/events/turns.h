#pragma once
// One at a time, by name: changes of one session take turns in this process, so that what one reads
// before it commits is seldom old. Other processes are held off by the conditions of the commits.

#include "base/clock.h"
#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"

#include <atomic>
#include <cstddef>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

namespace nimbus::events {

// Any thread. All turns must have ended before it is destroyed.
class Turns {
 public:
  // How many may wait for one name.
  static constexpr std::size_t kMaxWaiting = 1000;

  // Ends the turn when destroyed.
  class Turn;

  // Waits for every turn of that name that was asked for before. QueueFull if too many wait.
  Task<Result<Turn>> take(std::string name);

  // A time for a change made now, not before `before`: later than those given for other changes, so
  // that lists by time show which came first, but not much later than it is.
  Timestamp stamp(Timestamp now, Timestamp before);

 private:
  using Line = std::list<OneShotEvent>;

  std::atomic<Timestamp::rep> last_stamp_ = 0;
  std::mutex mutex_;
  std::unordered_map<std::string, Line> lines_;  // the front of each has its turn
};

class Turns::Turn {
 public:
  ~Turn();
  Turn(Turn&& other) noexcept;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Turn& operator=(Turn&&) = delete;

 private:
  friend class Turns;
  using Lines = std::unordered_map<std::string, Line>;

  Turn(Turns& turns, std::string name, Line::iterator place)
      : turns_(&turns), name_(std::move(name)), place_(place) {}

  Turns* turns_;
  std::string name_;
  Line::iterator place_;
};

}  // namespace nimbus::events
