#include "base/json.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/listing.h"
#include "cli/progress.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <ostream>

namespace nimbus::cli {
namespace {

constexpr std::size_t kAtOnce = 500;              // events that one append may hold
constexpr std::size_t kMostBytes = 768UL * 1024;  // of one, where several go together

// "/api/v1/apps/APP/users/USER/sessions/SESSION" and what follows it.
std::string logPath(const Arguments& arguments, std::string_view rest = {}) {
  return fmt::format("/api/v1/apps/{}/users/{}/sessions/{}{}",
                     client::encoded(*arguments.one("APP")),
                     client::encoded(arguments.one("--user").value_or("_")),
                     client::encoded(*arguments.one("SESSION")), rest);
}

Exit listEvents(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  const std::string target = logPath(arguments, "/events") +
                             query({{"order", arguments.one("--order").value_or("")},
                                    {"author", arguments.one("--author").value_or("")},
                                    {"request_id", arguments.one("--request-id").value_or("")},
                                    {"since", arguments.one("--since").value_or("")},
                                    {"until", arguments.one("--until").value_or("")}});
  return list(remote, arguments, target,
              {{"SEQ", "seq", Number},
               {"ID", "id"},
               {"AUTHOR", "author"},
               {"REQUEST", "request_id"},
               {"TIME", "timestamp", Time},
               {"CONTENT", "content"}},
              "it has no events");
}

Exit showEvent(Remote& remote, const Arguments& arguments) {
  return show(remote, logPath(arguments, "/events/" + client::encoded(*arguments.one("EVENT"))));
}

// The newest events, in order, one each.
std::optional<std::vector<std::string>> newest(Remote& remote, const Arguments& arguments) {
  const auto page =
      remote.get(logPath(arguments, "/events") +
                 query({{"order", "desc"}, {"limit", arguments.one("--limit").value_or("20")}}));
  if (!page) return std::nullopt;
  std::vector<std::string> events;
  const auto members = splitObject(page->body);
  for (const RawMember& member : members ? *members : std::vector<RawMember>()) {
    const auto items = member.name == "items" ? splitArray(member.value) : splitArray("[]");
    if (items) events.insert(events.begin(), items->rbegin(), items->rend());
  }
  return events;
}

Exit tail(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  std::string after = arguments.one("--after").value_or("");
  if (after.empty() || !arguments.has("--follow")) {
    const auto events = newest(remote, arguments);
    if (!events) return Exit::Failed;
    for (const std::string& event : *events) context.out << event << '\n';
    context.out << std::flush;
    if (!arguments.has("--follow")) return Exit::Ok;
    const auto last = parseJson(events->empty() ? "{}" : events->back());
    after = std::to_string(last ? last->integer("seq").value_or(0) : 0);
  }
  client::Request request;
  request.target = logPath(arguments, "/events/stream");
  request.headers.emplace_back("Last-Event-ID", after);
  const auto ended = remote.client().follow(request, [&](const client::Event& event) {
    context.out << event.data << '\n' << std::flush;
    return context.out.good();
  });
  if (ended && ended->status == 200) return Exit::Ok;
  if (ended) {
    remote.explain(*ended, request.target);
  } else {
    remote.explain(ended.error());
  }
  return Exit::Failed;
}

Exit trim(Remote& remote, const Arguments& arguments) {
  const std::string count = arguments.one("--conversations").value_or("1");
  if (count.empty() || count.find_first_not_of("0123456789") != count.npos) {
    remote.context().error("--conversations must be a number");
    return Exit::Usage;
  }
  return remote.change(
      post(logPath(arguments, "/events:trim"), fmt::format(R"({{"conversations":{}}})", count)),
      fmt::format("removed the newest {} conversations", count));
}

// One event a line, oldest first.
Exit exportEvents(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const std::string path = arguments.one("FILE").value_or("-");
  std::ofstream file;
  if (path != "-") file.open(path, std::ios::binary);
  std::ostream& out = path == "-" ? context.out : file;
  Progress progress(context, "exporting events, pages", 0);
  std::string cursor;
  do {
    const auto answer =
        remote.get(logPath(arguments, "/events") +
                   query({{"order", "asc"}, {"limit", "1000"}, {"cursor", cursor}}));
    if (!answer) return Exit::Failed;
    cursor.clear();
    const auto members = splitObject(answer->body);
    if (!members) return Exit::Failed;
    for (const RawMember& member : *members) {
      if (member.name == "next_cursor") {
        const auto next = parseJson(member.value);
        if (next && next->string()) cursor = *next->string();
      }
      if (member.name != "items") continue;
      const auto events = splitArray(member.value);
      if (!events) return Exit::Failed;
      for (const std::string_view event : *events) out << event << '\n';
    }
    progress.step();
  } while (!cursor.empty());
  out.flush();
  if (out) return Exit::Ok;
  context.error(fmt::format("{} cannot be written", printable(path)));
  return Exit::Failed;
}

bool isServersOwn(std::string_view member) {
  return member == "seq" || member == "version" || member == "created_at";
}

// What the server gave an event it gives again.
std::string withoutServersOwn(const std::string& event) {
  const auto members = splitObject(event);
  if (!members) return event;
  std::string kept;
  for (const RawMember& member : *members) {
    if (isServersOwn(member.name)) continue;
    kept += kept.empty() ? '{' : ',';
    appendJsonString(kept, member.name);
    kept += ':';
    kept += member.value;
  }
  return kept + (kept.empty() ? "{}" : "}");
}

// Makes the session unless it is there.
bool ensureSession(Remote& remote, const Arguments& arguments) {
  std::string body = R"({"id":)";
  appendJsonString(body, *arguments.one("SESSION"));
  const std::string path = logPath(arguments);
  const client::Request request = post(path.substr(0, path.rfind('/')), body + "}");
  const auto answer = remote.client().send(request);
  if (answer && (answer->isOk() || answer->status == 409)) return true;
  if (answer) {
    remote.explain(*answer, request.target);
  } else {
    remote.explain(answer.error());
  }
  return false;
}

Exit importEvents(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const std::string path = *arguments.one("FILE");
  const auto text = readInput(path == "-" ? path : "@" + path, context);
  if (!text) return Exit::Failed;
  std::vector<std::string> events;
  for (std::size_t at = 0; at < text->size();) {
    const std::size_t end = std::min(text->find('\n', at), text->size());
    if (end > at) events.push_back(withoutServersOwn(text->substr(at, end - at)));
    at = end + 1;
  }
  if (!ensureSession(remote, arguments)) return Exit::Failed;
  Progress progress(context, "importing events", events.size());
  for (std::size_t at = 0; at < events.size();) {
    std::string body = "[";
    std::size_t count = 0;
    while (at < events.size() && count < kAtOnce &&
           (count == 0 || body.size() + events[at].size() < kMostBytes)) {
      if (count++ != 0) body += ',';
      body += events[at++];
      progress.step();
    }
    if (!remote.ask(post(logPath(arguments, "/events"), body + "]"))) return Exit::Failed;
  }
  context.out << fmt::format("imported {} events\n", events.size());
  return Exit::Ok;
}

Exit check(Remote& remote, const Arguments& arguments) {
  const auto answer = remote.get(logPath(arguments, "/check"));
  if (!answer) return Exit::Failed;
  const auto report = parseJson(answer->body);
  const auto issues = report ? report->member("issues") : std::nullopt;
  const std::size_t count = issues ? issues->elements().size() : 0;
  Context& context = remote.context();
  if (remote.wantsJson() || count > 0) {
    context.out << answer->body << '\n';
  } else {
    context.out << "it is sound\n";
  }
  return count == 0 ? Exit::Ok : Exit::Failed;
}

Exit repair(Remote& remote, const Arguments& arguments) {
  return remote.change(post(logPath(arguments, "/repair")), "repaired");
}

}  // namespace

std::vector<Command> eventsCommands() {
  using enum Option::Takes;
  Command group;
  group.words = "events";
  group.summary = "The event log of a session";

  const auto one = [](const char* verb, const char* summary, RemoteAction action,
                      std::vector<Option> more = {}) {
    more.push_back({"--user", "Whose session it is; _ for those of functions", OneValue, "USER"});
    Command command =
        remoteCommand(fmt::format("events {}", verb), summary, action, std::move(more));
    command.positionals = {{"APP", "The app; of a function, its id"},
                           {"SESSION", "The id of the session"}};
    command.examples = {{fmt::format("nimbus events {} chat alice", verb), ""}};
    return command;
  };
  std::vector<Option> filters = listOptions();
  filters.push_back({"--order", "asc or desc", OneValue, "ORDER"});
  filters.push_back({"--author", "Only by this author", OneValue, "AUTHOR"});
  filters.push_back({"--request-id", "Only of this request", OneValue, "ID"});
  filters.push_back({"--since", "From this time on", OneValue, "TIME"});
  filters.push_back({"--until", "Up to this time", OneValue, "TIME"});
  Command showing = one("show", "Show an event", showEvent);
  showing.positionals.push_back({"EVENT", "The id of the event"});
  showing.examples = {{"nimbus events show chat alice EVENT", ""}};
  Command exporting = one("export", "Write all events, one a line, oldest first", exportEvents);
  exporting.positionals.push_back({"FILE", "Where to; else standard output", false});
  exporting.examples = {{"nimbus events export chat alice alice.jsonl", ""}};
  Command importing = one(
      "import", "Append the events in a file; makes the session if there is none", importEvents);
  importing.positionals.push_back({"FILE", "Where from; - is standard input"});
  importing.examples = {{"nimbus events import chat alice alice.jsonl", ""}};
  Command tailing = one("tail", "Print the newest events; with -f go on with what comes", tail,
                        {{"-f,--follow", "Stay, and print what comes, one event a line"},
                         {"--after", "With -f: all from behind this number on", OneValue, "SEQ"},
                         {"--limit", "How many; 20", OneValue, "N"}});
  tailing.examples = {{"nimbus events tail chat alice -f", ""}};
  return {
      group,
      one("list", "List events", listEvents, std::move(filters)),
      showing,
      tailing,
      one("trim", "Remove the newest conversations", trim,
          {{"--conversations", "How many; 1", OneValue, "N"}}),
      exporting,
      importing,
      one("check", "Look for inconsistencies; 1 if there are any", check),
      one("repair", "Rebuild what can be rebuilt", repair),
      eventsMigrateCommand(),
  };
}

}  // namespace nimbus::cli
