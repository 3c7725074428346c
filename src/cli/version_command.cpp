#include "base/version.h"
#include "cli/commands.h"

#include <ostream>

namespace nimbus::cli {

std::vector<Command> versionCommands() {
  Command command;
  command.words = "version";
  command.summary = "Print the version";
  command.run = [](const Arguments& /*arguments*/, Context& context) {
    context.out << "nimbus " << version() << '\n';
    return Exit::Ok;
  };
  return {command};
}

}  // namespace nimbus::cli
