#pragma once
// Every command of `nimbus`, in the order --help shows them.

#include "cli/command.h"

#include <vector>

namespace nimbus::cli {

std::vector<Command> allCommands();

// One per file, named after it.
std::vector<Command> serveCommands();
std::vector<Command> configCommands();
std::vector<Command> versionCommands();

}  // namespace nimbus::cli
