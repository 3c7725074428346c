#pragma once
// The command line of `nimbus`.

#include <iosfwd>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::cli {

class Backend;

struct Surroundings {
  std::ostream& out;
  std::ostream& err;
  std::vector<std::pair<std::string, std::string>> environment;
  bool err_is_terminal = false;
};

// Runs the command that `arguments` (without the program's name) ask for; returns the exit code:
// 0 done, 1 failed, 2 the command line made no sense.
int run(std::span<const std::string> arguments, Backend& backend, const Surroundings& around);

}  // namespace nimbus::cli
