#pragma once
// The options by which every command that needs a configuration finds it, and the loading of it.

#include "cli/command.h"

#include <vector>

namespace nimbus::cli {

// --config and --set.
std::vector<Option> configurationOptions();

// Loads file, environment, --set and `assignments` (options with names of their own, such as
// --listen) into the backend's settings. Says on stderr whatever is wrong.
Exit loadConfiguration(const Arguments& arguments, Context& context,
                       std::vector<Settings::Assignment> assignments = {});

}  // namespace nimbus::cli
