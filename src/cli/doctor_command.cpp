#include "base/json_text.h"
#include "base/version.h"
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/configuration.h"
#include "cli/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>

namespace nimbus::cli {
namespace {

using Verdict = Finding::Verdict;

std::string_view sign(Verdict verdict, bool colour) {
  switch (verdict) {
    case Verdict::Good:
      return colour ? "\x1b[32m✓\x1b[0m" : "✓";
    case Verdict::Missing:
      return colour ? "\x1b[33m!\x1b[0m" : "!";
    case Verdict::Bad:
      break;
  }
  return colour ? "\x1b[1;31m✗\x1b[0m" : "✗";
}

std::string_view nameOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::Good:
      return "good";
    case Verdict::Missing:
      return "missing";
    case Verdict::Bad:
      break;
  }
  return "bad";
}

std::string jsonOf(const std::vector<Finding>& findings) {
  std::string text = R"({"items":[)";
  for (const Finding& finding : findings) {
    if (!text.ends_with('[')) text += ',';
    text += fmt::format(R"({{"verdict":"{}","what":)", nameOf(finding.verdict));
    appendJsonString(text, finding.what);
    text += R"(,"advice":)";
    appendJsonString(text, finding.advice);
    text += '}';
  }
  return text + "]}\n";
}

Exit doctor(const Arguments& arguments, Context& context) {
  std::vector<Settings::Assignment> assignments;
  if (const auto listen = arguments.one("--listen")) {
    assignments.push_back({"server.listen", *listen, "--listen"});
  }
  if (const auto data = arguments.one("--data")) {
    assignments.push_back({"server.data", *data, "--data"});
  }
  if (const Exit loaded = loadConfiguration(arguments, context, std::move(assignments));
      loaded != Exit::Ok) {
    return loaded;
  }
  const std::vector<Finding> findings = examine(context.backend.place());
  if (arguments.one("--output") == "json") {
    context.out << jsonOf(findings);
  } else {
    context.out << "nimbus " << version() << '\n';
    for (const Finding& finding : findings) {
      context.out << sign(finding.verdict, context.colour && context.out_is_terminal) << ' '
                  << finding.what << '\n';
      if (!finding.advice.empty()) context.out << "    " << finding.advice << '\n';
    }
  }
  const bool is_bad = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Verdict::Bad;
  });
  return is_bad ? Exit::Failed : Exit::Ok;
}

}  // namespace

std::vector<Command> doctorCommands() {
  using enum Option::Takes;
  Command command;
  command.words = "doctor";
  command.summary = "Say what is missing on this machine";
  command.details =
      "Looks for what functions run on, whether they can be isolated, and whether the server "
      "could\n"
      "start with these settings. 1 if it could not; what is only missing for some functions is\n"
      "no failure.";
  command.options = configurationOptions();
  command.options.push_back({"--listen", "As for serve", OneValue, "HOST:PORT"});
  command.options.push_back({"--data", "As for serve", OneValue, "DIR"});
  command.options.push_back(
      {"-o,--output", "table for people, json for programs", OneValue, "FORMAT"});
  command.examples = {{"nimbus doctor", ""},
                      {"nimbus doctor --config /etc/nimbus/nimbus.yaml", ""}};
  command.run = doctor;
  return {command};
}

}  // namespace nimbus::cli
