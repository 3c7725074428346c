#pragma once
// Every command of `nimbus`, in the order --help shows them.

#include "cli/command.h"

#include <vector>

namespace nimbus::cli {

std::vector<Command> allCommands();

// One per file, named after it.
std::vector<Command> serveCommands();
std::vector<Command> devCommands();
std::vector<Command> newCommands();
std::vector<Command> deployCommands();
std::vector<Command> invokeCommands();
std::vector<Command> functionsCommands();
std::vector<Command> sessionsCommands();
std::vector<Command> stateCommands();
std::vector<Command> invocationsCommands();
std::vector<Command> eventsCommands();
Command eventsMigrateCommand();  // one of them
std::vector<Command> logsCommands();
std::vector<Command> keysCommands();
std::vector<Command> devicesCommands();
std::vector<Command> instancesCommands();
std::vector<Command> transferCommands();
std::vector<Command> topCommands();
std::vector<Command> benchCommands();
std::vector<Command> configCommands();
std::vector<Command> doctorCommands();
std::vector<Command> completionCommands();
std::vector<Command> versionCommands();
std::vector<Command> referenceCommands();

}  // namespace nimbus::cli
