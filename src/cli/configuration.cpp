#include "cli/configuration.h"

#include "base/json_text.h"
#include "cli/backend.h"

#include <algorithm>

namespace nimbus::cli {

std::vector<Option> configurationOptions() {
  return {
      {"-c,--config", "Read settings from a YAML file", Option::Takes::OneValue, "FILE"},
      {"--set", "Set one setting, such as log.level=debug; may be repeated",
       Option::Takes::ManyValues, "NAME=VALUE"},
  };
}

Exit loadConfiguration(const Arguments& arguments, Context& context,
                       std::vector<Settings::Assignment> assignments) {
  Settings::Sources sources;
  sources.file = arguments.one("--config");
  sources.environment = context.environment;
  for (const std::string& text : arguments.all("--set")) {
    const std::size_t equals = text.find('=');
    if (equals == text.npos) {
      context.error("--set \"" + printable(text) + "\" has no value", "write --set NAME=VALUE");
      return Exit::Usage;
    }
    const std::string name = text.substr(0, equals);
    sources.assignments.push_back({name, text.substr(equals + 1), "--set " + name});
  }
  // Last, so that an option with a name of its own wins over --set.
  std::move(assignments.begin(), assignments.end(), std::back_inserter(sources.assignments));

  Settings& settings = context.backend.settings();
  Settings::Problems problems = settings.load(sources);
  if (problems.empty()) problems = context.backend.crossCheck();
  if (problems.empty()) return Exit::Ok;

  for (const Settings::Problem& problem : problems) context.error(problem.text());
  context.err << "hint: `nimbus config show` lists every setting and what it is now\n";
  const bool all_on_command_line =
      std::all_of(problems.begin(), problems.end(),
                  [](const auto& problem) { return problem.where.starts_with("--"); });
  return all_on_command_line ? Exit::Usage : Exit::Failed;
}

}  // namespace nimbus::cli
