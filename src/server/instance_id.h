#pragma once

#include "base/clock.h"
#include "base/random.h"

#include <string>
#include <string_view>

namespace nimbus::server {

// gw-<host>-<pid>-<base36 ms>-<random>: unique among all processes that ever share a store. What a
// host name may hold and an id may not becomes '-'.
std::string makeInstanceId(std::string_view host, int pid, Timestamp now, Random& random);

// As the kernel has it.
std::string hostName();

}  // namespace nimbus::server
