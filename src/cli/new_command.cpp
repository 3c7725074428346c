#include "base/ids.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/templates.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <system_error>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;

const Template* find(std::string_view name, const std::optional<std::string>& language) {
  const auto all = templates();
  const auto found = std::find_if(all.begin(), all.end(), [&](const Template& one) {
    return one.name == name && (!language || one.language == *language);
  });
  return found == all.end() ? nullptr : &*found;
}

std::string choices() {
  std::string text;
  for (const Template& one : templates()) {
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", one.name, one.language);
  }
  return text;
}

bool write(const fs::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  return file.good();
}

Exit create(const Arguments& arguments, Context& context) {
  const fs::path folder = *arguments.one("NAME");
  const std::string name = folder.filename().string();
  if (const auto id = FunctionId::parse(name); !id) {
    context.error(fmt::format("\"{}\": {}", printable(name), id.error().message()));
    return Exit::Usage;
  }
  const auto language = arguments.one("--language");
  const Template* chosen = find(arguments.one("--template").value_or("counter"), language);
  if (chosen == nullptr) {
    context.error("there is no such template", "there are " + choices());
    return Exit::Usage;
  }
  std::error_code failed;
  if (fs::exists(folder, failed)) {
    context.error(fmt::format("{} is there already", printable(folder.string())));
    return Exit::Failed;
  }
  fs::create_directories(folder, failed);
  if (failed || !write(folder / chosen->file, chosen->code) ||
      !write(folder / "function.yaml", templateSettings())) {
    context.error(fmt::format("{} cannot be written{}", printable(folder.string()),
                              failed ? ": " + failed.message() : ""));
    return Exit::Failed;
  }
  const std::string shown = folder.string();
  context.out << fmt::format("{0}/{1}\n{0}/function.yaml\n", shown, chosen->file);
  context.err << fmt::format(
      "Next:  nimbus dev {}\nThen:  nimbus invoke {} --session alice "
      "--data '{}'\n",
      shown, name, chosen->payload);
  return Exit::Ok;
}

}  // namespace

std::vector<Command> newCommands() {
  using enum Option::Takes;
  Command command;
  command.words = "new";
  command.summary = "Begin a function: a folder with code and settings";
  command.positionals = {{"NAME", "The folder; its name is the function's"}};
  command.options = {{"--template", "counter, cart or chat", OneValue, "TEMPLATE"},
                     {"--language", "python, node, or for counter native (C++)", OneValue, "NAME"}};
  command.examples = {{"nimbus new counter", ""},
                      {"nimbus new shop/cart --template cart --language node", ""}};
  command.run = create;
  return {command};
}

}  // namespace nimbus::cli
