#pragma once
// The thread that looks after timeouts, pauses between attempts and idle sessions. It sleeps until
// the earliest moment that somebody named, and is woken only for an earlier one: while tasks come
// and go in time, nobody pays for it.

#include "dispatch/clock.h"

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

namespace nimbus::dispatch {

class Supervisor {
 public:
  // `attend` does what is due and returns when to come again.
  explicit Supervisor(std::function<Instant(Instant now)> attend);
  ~Supervisor() { stop(); }
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Makes it attend at `at`, or before. In one order with whatever else is sequentially consistent:
  // who has changed something before this call is seen by the next attend(), or noticed here.
  void notice(Instant at) {
    if (at.time_since_epoch() < next_.load()) bringForward(at);
  }

  void stop();

 private:
  void run();
  void bringForward(Instant at);

  const std::function<Instant(Instant)> attend_;
  std::atomic<Instant::duration> next_ = Instant::duration::zero();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace nimbus::dispatch
