#pragma once
// A line that a function printed, as people read it.

#include "base/json.h"

#include <string>

namespace nimbus::cli {

// "12:00:00.123 line\n"; what went to stderr is marked, in colour or by "!".
std::string logLine(const JsonValue& line, bool colour);
std::string logLine(const std::string& json, bool colour);

}  // namespace nimbus::cli
