#pragma once
// The command line of `nimbus`.

#include <cstddef>
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
  std::istream* in = nullptr;  // null: nothing can be read
  bool in_is_terminal = false;
  bool out_is_terminal = false;
  std::size_t columns = 0;  // of the terminal that stdout is
};

// Runs the command that `arguments` (without the program's name) ask for; returns the exit code:
// 0 done, 1 failed, 2 the command line made no sense.
int run(std::span<const std::string> arguments, Backend& backend, const Surroundings& around);

}  // namespace nimbus::cli
