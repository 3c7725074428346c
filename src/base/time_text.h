#pragma once

#include "base/clock.h"

#include <string>

namespace nimbus {

// RFC 3339, UTC, with milliseconds: "2026-01-31T09:08:07.006Z".
std::string timeText(Timestamp time);

}  // namespace nimbus
