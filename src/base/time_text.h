#pragma once

#include "base/clock.h"
#include "base/result.h"

#include <string>
#include <string_view>

namespace nimbus {

// RFC 3339, UTC, with milliseconds: "2026-01-31T09:08:07.006Z".
std::string timeText(Timestamp time);

// The same and every other RFC 3339 time; what is finer than milliseconds is left out.
// InvalidArgument for any other text.
Result<Timestamp> parseTime(std::string_view text);

}  // namespace nimbus
