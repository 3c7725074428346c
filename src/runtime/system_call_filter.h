#pragma once
// What the kernel refuses to processes in a cell, whatever they run.
//
// What is refused answers EPERM, as it would for want of rights: programs that only try go on.

#include "base/result.h"

#include <linux/filter.h>

#include <vector>

namespace nimbus::runtime {

using SystemCallFilter = std::vector<sock_filter>;

// Unavailable if this kernel has no such filters.
Result<SystemCallFilter> makeSystemCallFilter();

// Puts the filter on the calling thread and all that it becomes, for good. It must have no new
// privileges. Only makes system calls. False: errno says why.
bool install(const SystemCallFilter& filter);

}  // namespace nimbus::runtime
