#pragma once
// What there is on this machine that a server or its functions need.

#include "cli/backend.h"

#include <cstdint>
#include <string>
#include <vector>

namespace nimbus::cli {

struct Finding {
  // Missing: some functions cannot run, or not as well. Bad: the server cannot start.
  enum class Verdict : std::uint8_t { Good, Missing, Bad };
  Verdict verdict = Verdict::Good;
  std::string what;
  std::string advice = {};
};

// Changes nothing. Starts the programs it finds, to ask for their versions.
std::vector<Finding> examine(const Place& place);

}  // namespace nimbus::cli
