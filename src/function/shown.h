#pragma once

#include <string>
#include <string_view>

namespace nimbus::function {

// A name of a stranger's as errors show it: escaped, and cut if it is long.
std::string shown(std::string_view name);

}  // namespace nimbus::function
