#include "cli/commands.h"

#include <iterator>

namespace nimbus::cli {

std::vector<Command> allCommands() {
  std::vector<Command> all;
  for (const auto& commands_of :
       {serveCommands,       devCommands,       newCommands,      deployCommands,
        invokeCommands,      functionsCommands, sessionsCommands, stateCommands,
        invocationsCommands, eventsCommands,    logsCommands,     keysCommands,
        devicesCommands,     instancesCommands, transferCommands, topCommands,
        benchCommands,       configCommands,    doctorCommands,   completionCommands,
        versionCommands,     referenceCommands}) {
    std::vector<Command> commands = commands_of();
    std::move(commands.begin(), commands.end(), std::back_inserter(all));
  }
  return all;
}

}  // namespace nimbus::cli
