#pragma once

#include "base/clock.h"

#include <condition_variable>
#include <mutex>
#include <thread>

namespace nimbus::server {

// Ends the process, with exit code 0, if it has not ended by itself in time. Whoever stops a server
// is promised an end; a handler that blocks its thread must not break that.
class ExitDeadline {
 public:
  explicit ExitDeadline(Millis after);
  ~ExitDeadline();  // in time

  ExitDeadline(const ExitDeadline&) = delete;
  ExitDeadline& operator=(const ExitDeadline&) = delete;

 private:
  void wait(Millis after);

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_met_ = false;  // guarded by mutex_
  std::thread thread_;   // a thread of its own: the others may be the ones that hang
};

}  // namespace nimbus::server
