#include "cli/commands.h"

#include <iterator>

namespace nimbus::cli {

std::vector<Command> allCommands() {
  std::vector<Command> all;
  for (const auto& commands_of : {serveCommands, configCommands, versionCommands}) {
    std::vector<Command> commands = commands_of();
    std::move(commands.begin(), commands.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace nimbus::cli
