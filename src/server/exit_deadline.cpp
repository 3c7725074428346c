#include "server/exit_deadline.h"

#include "base/log.h"

#include <cstdlib>

namespace nimbus::server {

ExitDeadline::ExitDeadline(Millis after) : thread_([this, after] { wait(after); }) {}

ExitDeadline::~ExitDeadline() {
  {
    const std::lock_guard lock(mutex_);
    is_met_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ExitDeadline::wait(Millis after) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, after, [this] { return is_met_; })) return;
  log::warn("something still runs and is left behind");
  std::_Exit(EXIT_SUCCESS);
}

}  // namespace nimbus::server
