#include "cli/cli.h"

#include "cli/command.h"
#include "cli/commands.h"
#include "cli/parser.h"

#include <ostream>
#include <sstream>

namespace nimbus::cli {
namespace {

bool wantsColour(const Surroundings& around) {
  for (const auto& [name, value] : around.environment) {
    if (name == "NO_COLOR" && !value.empty()) return false;
    if (name == "TERM" && value == "dumb") return false;
  }
  return around.err_is_terminal;
}

}  // namespace

int run(std::span<const std::string> arguments, Backend& backend, const Surroundings& around) {
  std::istringstream nothing;
  Context context{around.out,
                  around.err,
                  around.environment,
                  backend,
                  wantsColour(around),
                  around.in == nullptr ? nothing : *around.in,
                  around.in_is_terminal,
                  around.out_is_terminal,
                  around.err_is_terminal,
                  around.columns};
  const std::vector<Command> commands = allCommands();
  const Parsed parsed = parse(commands, arguments);
  Exit exit = Exit::Ok;
  if (parsed.command != nullptr) {
    exit = parsed.command->run(parsed.arguments, context);
  } else if (!parsed.mistake.empty()) {
    context.error(parsed.mistake, parsed.hint);
    exit = Exit::Usage;
  } else {
    context.out << parsed.help;
  }
  // A full disk or a closed pipe must not pass for success.
  context.out.flush();
  if (exit == Exit::Ok && !context.out) exit = Exit::Failed;
  return static_cast<int>(exit);
}

}  // namespace nimbus::cli
