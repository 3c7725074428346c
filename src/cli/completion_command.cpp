#include "cli/commands.h"
#include "cli/completion.h"

#include <ostream>

namespace nimbus::cli {
namespace {

Exit complete(const Arguments& arguments, Context& context) {
  const std::string shell = *arguments.one("SHELL");
  const auto script = completionScript(shell, allCommands());
  if (!script) {
    context.error("there is no completion for that shell", "bash, zsh or fish");
    return Exit::Usage;
  }
  context.out << *script;
  return Exit::Ok;
}

}  // namespace

std::vector<Command> completionCommands() {
  Command command;
  command.words = "completion";
  command.summary = "Print what completes commands and options in a shell";
  command.positionals = {{"SHELL", "bash, zsh or fish"}};
  command.examples = {
      {"source <(nimbus completion bash)", "in ~/.bashrc"},
      {"nimbus completion zsh > ~/.zfunc/_nimbus", "a directory of $fpath"},
      {"nimbus completion fish > ~/.config/fish/completions/nimbus.fish", ""},
  };
  command.run = complete;
  return {command};
}

}  // namespace nimbus::cli
