#include "base/json.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/log_line.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <ostream>
#include <vector>

namespace nimbus::cli {
namespace {

Exit follow(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  client::Request request;
  request.target = functionPath(arguments, "/logs") +
                   query({{"follow", "true"}, {"limit", arguments.one("--limit").value_or("")}});
  const auto ended = remote.client().follow(request, [&](const client::Event& event) {
    if (remote.wantsJson()) {
      context.out << event.data << '\n' << std::flush;
    } else if (event.type.empty()) {
      context.out << logLine(event.data, context.colour && context.out_is_terminal) << std::flush;
    } else {
      context.warning("some lines were missed: they came too fast");
    }
    return context.out.good();
  });
  if (!ended) {
    remote.explain(ended.error());
    return Exit::Failed;
  }
  if (ended->status == 200) return Exit::Ok;
  remote.explain(*ended, request.target);
  return Exit::Failed;
}

Exit logs(Remote& remote, const Arguments& arguments) {
  if (arguments.has("--follow")) return follow(remote, arguments);
  const auto answer = remote.get(functionPath(arguments, "/logs") +
                                 query({{"limit", arguments.one("--limit").value_or("")}}));
  if (!answer) return Exit::Failed;
  Context& context = remote.context();
  if (remote.wantsJson()) {
    context.out << answer->body << '\n';
    return Exit::Ok;
  }
  const auto page = parseJson(answer->body);
  const auto items = page ? page->member("items") : std::nullopt;
  if (!items) return Exit::Failed;
  // The server has the newest first; people read downwards.
  const std::vector<JsonValue> lines = items->elements();
  for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
    context.out << logLine(*line, context.colour && context.out_is_terminal);
  }
  return Exit::Ok;
}

}  // namespace

std::vector<Command> logsCommands() {
  using enum Option::Takes;
  Command command =
      remoteCommand("logs", "Print what a function printed", logs,
                    {{"-f,--follow", "Stay, and print what comes"},
                     {"--limit", "How many lines to begin with; 100", OneValue, "N"}});
  command.positionals = {{"FUNCTION", "Its id"}};
  command.examples = {{"nimbus logs counter", ""}, {"nimbus logs counter -f --limit 10", ""}};
  return {command};
}

}  // namespace nimbus::cli
