#pragma once

#include <string_view>

namespace nimbus {

// As `nimbus version` and /health say it: "0.1.0".
std::string_view version();

}  // namespace nimbus
