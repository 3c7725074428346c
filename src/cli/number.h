#pragma once

#include "cli/command.h"

#include <cstdint>
#include <string>

namespace nimbus::cli {

// The whole number that an option was given; `number` stays as it is if it was not. False, and said
// why, if it is none from `least` to `most`.
bool readNumber(const Arguments& arguments, const std::string& option, std::int64_t least,
                std::int64_t most, std::int64_t& number, const Context& context);

}  // namespace nimbus::cli
