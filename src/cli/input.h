#pragma once
// Text that is given on the command line, in a file or on standard input.

#include "cli/command.h"

#include <optional>
#include <string>

namespace nimbus::cli {

// "@FILE" is the file's content, "-" that of standard input, anything else itself. Nothing if it
// cannot be read, which has been said.
std::optional<std::string> readInput(const std::string& given, Context& context);

// The same, and it must be JSON; `option` is how it is called when it is not.
std::optional<std::string> readJson(const std::string& given, std::string_view option,
                                    Context& context);

std::optional<std::string> readWholeFile(const std::string& path, Context& context);

}  // namespace nimbus::cli
