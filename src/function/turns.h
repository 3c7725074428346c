#pragma once
// One at a time, for tasks: a mutex that may be held across co_await.

#include "base/one_shot.h"
#include "base/task.h"

#include <list>
#include <mutex>
#include <utility>

namespace nimbus::function {

// Any thread. All turns must have ended before it is destroyed.
class Turns {
 public:
  // Ends the turn when destroyed.
  class Turn;

  // Waits for every turn that was asked for before. Whoever waits is not woken by cancellation.
  Task<Turn> take();

 private:
  using Line = std::list<OneShotEvent>;

  std::mutex mutex_;
  Line line_;  // the front has its turn, and its event is set
};

class Turns::Turn {
 public:
  // Joins the line.
  explicit Turn(Turns& turns);
  // Leaves it, wherever in it it is: a task that was ended before its turn came holds nobody up.
  ~Turn();
  Turn(Turn&& other) noexcept
      : turns_(std::exchange(other.turns_, nullptr)), place_(other.place_) {}
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  Turn& operator=(Turn&&) = delete;

 private:
  friend class Turns;

  Turns* turns_;
  Line::iterator place_;
};

}  // namespace nimbus::function
