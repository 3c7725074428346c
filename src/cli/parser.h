#pragma once
// From words to a command and its arguments.

#include "cli/command.h"

#include <span>
#include <string>
#include <vector>

namespace nimbus::cli {

// One of: a command with its arguments; help that was asked for; a mistake.
struct Parsed {
  const Command* command = nullptr;  // one of those given
  Arguments arguments;
  std::string help;
  std::string mistake;
  std::string hint;
};

// `commands` must outlive what is returned. Groups stand before their commands.
Parsed parse(const std::vector<Command>& commands, std::span<const std::string> arguments);

}  // namespace nimbus::cli
