#pragma once
// Tasks side by side, for one that waits for all of them.

#include "base/task.h"

#include <vector>

namespace nimbus {

// Runs the tasks on this task's executor, which runs one handler at a time, and returns when all
// have ended. What they refer to must live until then. The first exception that leaves one of them
// is thrown again.
Task<> together(std::vector<Task<>> tasks);

}  // namespace nimbus
