#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "cli/transfer.h"

#include <fmt/format.h>

#include <fstream>
#include <ostream>

namespace nimbus::cli {
namespace {

// `nimbus export FILE` and `nimbus export FUNCTION FILE`.
struct What {
  std::optional<std::string> function;
  std::string file;
};

What whatOf(const Arguments& arguments) {
  const std::string first = *arguments.one("FUNCTION");
  const auto second = arguments.one("FILE");
  return second ? What{first, *second} : What{std::nullopt, first};
}

std::string summaryOf(const LineImport& import) {
  return import.skipped() == 0
             ? fmt::format("{} things", import.taken())
             : fmt::format("{} things; {} were there already", import.taken(), import.skipped());
}

Exit exportAll(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const What what = whatOf(arguments);
  std::ofstream file;
  if (what.file != "-") file.open(what.file, std::ios::binary);
  std::ostream& out = what.file == "-" ? context.out : file;
  std::size_t lines = 0;
  const LineSink write = [&](const std::string& line) {
    out << line << '\n';
    ++lines;
    return out.good();
  };
  const bool is_whole = exportLines(remote, what.function, write);
  out.flush();
  if (!out) {
    context.error(fmt::format("{} cannot be written", printable(what.file)));
    return Exit::Failed;
  }
  if (!is_whole) return Exit::Failed;
  context.err << (what.function ? fmt::format("exported {} sessions\n", lines - 2)
                                : fmt::format("exported {} things\n", lines - 2));
  return Exit::Ok;
}

Exit importAll(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const What what = whatOf(arguments);
  std::ifstream file;
  if (what.file != "-") file.open(what.file, std::ios::binary);
  std::istream& in = what.file == "-" ? context.in : file;
  if (!in) {
    context.error(fmt::format("{} cannot be read", printable(what.file)));
    return Exit::Failed;
  }
  std::size_t total = 0;
  if (what.file != "-" && context.err_is_terminal) {
    std::string line;
    while (std::getline(in, line)) ++total;
    in.clear();
    in.seekg(0);
  }
  LineImport import(remote, {what.function, arguments.has("--skip-existing")});
  std::size_t number = 0;
  {
    Progress progress(context, "importing", total);
    std::string line;
    while (std::getline(in, line)) {
      ++number;
      if (line.empty()) continue;
      if (!import.take(line)) {
        context.err << fmt::format("line {} of {}; imported before it: {}\n", number,
                                   printable(what.file), summaryOf(import));
        return Exit::Failed;
      }
      progress.step();
    }
  }
  if (!import.isComplete()) {
    context.error(fmt::format("{} has no end: a part of it is missing", printable(what.file)),
                  "export again; with --skip-existing what is there already stays");
    return Exit::Failed;
  }
  context.out << (what.function ? fmt::format("imported {} sessions\n", import.taken())
                                : fmt::format("imported {}\n", summaryOf(import)));
  return Exit::Ok;
}

// The server that everything goes to.
std::optional<Remote> openTarget(const Arguments& arguments, Context& context, Exit& exit) {
  Arguments there;
  there.add("--server", {*arguments.one("--to")});
  if (const auto data = arguments.one("--to-data-dir")) there.add("--data-dir", {*data});
  const auto key = context.variable("NIMBUS_TO_KEY");
  std::erase_if(context.environment, [](const auto& one) { return one.first == "NIMBUS_KEY"; });
  if (key) context.environment.emplace_back("NIMBUS_KEY", *key);
  return openRemote(there, context, exit);
}

Exit migrate(Remote& from, const Arguments& arguments) {
  Context& context = from.context();
  if (!arguments.has("--to")) {
    context.error("where to?", "nimbus migrate --to http://127.0.0.1:8788");
    return Exit::Usage;
  }
  Exit exit = Exit::Ok;
  std::optional<Remote> to = openTarget(arguments, context, exit);
  if (!to) return exit;
  if (to->client().url().text() == from.client().url().text()) {
    context.error("both are the same server", "--server names the old one, --to the new one");
    return Exit::Usage;
  }
  LineImport import(*to, {std::nullopt, arguments.has("--skip-existing")});
  const bool is_whole =
      exportLines(from, std::nullopt, [&](const std::string& line) { return import.take(line); });
  if (!is_whole) {
    context.err << fmt::format("migrated before that: {}\n", summaryOf(import));
    return Exit::Failed;
  }
  context.out << fmt::format("migrated {}\n", summaryOf(import));
  return Exit::Ok;
}

}  // namespace

std::vector<Command> transferCommands() {
  using enum Option::Takes;
  const Option skip{"--skip-existing", "Leave sessions as they are that are there already"};
  const Positional function{"FUNCTION", "Only the sessions of this function; may be left out"};
  constexpr const char* kWhat =
      "Everything is: functions with their code, settings and function-scope state; sessions with\n"
      "their state, events and waiting calls; event logs of apps. Keys, devices and the audit log\n"
      "stay where they are. What changes meanwhile may be missed, and a call that waits would run\n"
      "in both places: `nimbus sessions pause` first.";
  Command exporting =
      remoteCommand("export", "Write everything, or a function's sessions, to a file", exportAll);
  exporting.details = kWhat;
  exporting.positionals = {function, {"FILE", "Where to; - is standard output", false}};
  exporting.examples = {{"nimbus export everything.jsonl", ""},
                        {"nimbus export counter counter.jsonl", "the sessions of one function"}};
  Command importing = remoteCommand("import", "Read what `nimbus export` wrote", importAll, {skip});
  importing.positionals = {function, {"FILE", "Where from; - is standard input", false}};
  importing.examples = {
      {"nimbus import everything.jsonl", ""},
      {"nimbus import counter2 counter.jsonl", "sessions for another function"},
      {"nimbus import everything.jsonl --skip-existing", "go on after a failure"}};
  Command migrating = remoteCommand(
      "migrate", "Copy everything from one server to another, whatever their stores", migrate,
      {{"--to", "The new server", OneValue, "URL"},
       {"--to-data-dir", "Its data directory, where its key is; NIMBUS_TO_KEY wins", OneValue,
        "DIR"},
       skip});
  migrating.details = kWhat;
  migrating.examples = {
      {"nimbus migrate --to http://127.0.0.1:8788 --to-data-dir /var/lib/nimbus-redis", ""},
      {"nimbus migrate --server http://old:8787 --to http://new:8787 --skip-existing", ""}};
  return {exporting, importing, migrating};
}

}  // namespace nimbus::cli
