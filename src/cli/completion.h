#pragma once
// What completes commands and options in a shell, made from the table of commands.

#include "cli/command.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cli {

// For bash, zsh or fish; nothing for others.
std::optional<std::string> completionScript(std::string_view shell,
                                            const std::vector<Command>& commands);

}  // namespace nimbus::cli
