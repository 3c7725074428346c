#include "cli/commands.h"
#include "cli/input.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <fstream>
#include <ostream>

namespace nimbus::cli {
namespace {

constexpr Millis kDrain = std::chrono::hours(1);

std::string sessionPath(const Arguments& arguments, std::string_view rest = {}) {
  return functionPath(arguments, "/sessions/" + client::encoded(*arguments.one("SESSION"))) +
         std::string(rest);
}

Exit listSessions(Remote& remote, const Arguments& arguments) {
  if (arguments.has("SESSION")) return show(remote, sessionPath(arguments));
  using enum Shown::As;
  return list(remote, arguments, functionPath(arguments, "/sessions"),
              {{"SESSION", "session_key"},
               {"STATUS", "status"},
               {"WAITING", "queue_length", Number},
               {"NEXT", "next_seq", Number},
               {"SIZE", "total_size", Bytes},
               {"LAST ACCESS", "last_access", Time},
               {"EXPIRES", "expires_at", Time}},
              "it has no sessions");
}

Exit showSession(Remote& remote, const Arguments& arguments) {
  return show(remote, sessionPath(arguments));
}

Exit deleteSession(Remote& remote, const Arguments& arguments) {
  const std::string session = *arguments.one("SESSION");
  if (!remote.mayDestroy(arguments,
                         fmt::format("Delete session {}, its calls and its state?", session))) {
    return Exit::Failed;
  }
  return remote.change(removal(sessionPath(arguments)), fmt::format("deleted {}", session));
}

Exit pause(Remote& remote, const Arguments& arguments) {
  return remote.change(post(sessionPath(arguments, "/pause")),
                       "paused; `nimbus sessions resume` lets it go on");
}

Exit resume(Remote& remote, const Arguments& arguments) {
  return remote.change(post(sessionPath(arguments, "/resume")), "resumed");
}

Exit drain(Remote& remote, const Arguments& arguments) {
  client::Request request = post(sessionPath(arguments, "/drain"));
  request.timeout = kDrain;
  return remote.change(request, "drained; it accepts nothing new until `nimbus sessions resume`");
}

Exit exportSession(Remote& remote, const Arguments& arguments) {
  const auto answer = remote.get(sessionPath(arguments, "/export"));
  if (!answer) return Exit::Failed;
  Context& context = remote.context();
  const auto path = arguments.one("FILE");
  if (!path || *path == "-") {
    context.out << answer->body << '\n';
    return Exit::Ok;
  }
  std::ofstream file(*path, std::ios::binary);
  file << answer->body << '\n';
  file.close();
  if (file) return Exit::Ok;
  context.error(fmt::format("{} cannot be written", *path));
  return Exit::Failed;
}

Exit importSession(Remote& remote, const Arguments& arguments) {
  const std::string path = *arguments.one("FILE");
  const auto body = readInput(path == "-" ? path : "@" + path, remote.context());
  if (!body) return Exit::Failed;
  return remote.change(post(functionPath(arguments, "/sessions:import"), *body), "imported");
}

}  // namespace

std::vector<Command> sessionsCommands() {
  const Positional function{"FUNCTION", "Its id"};
  const Positional session{"SESSION", "The key of the session"};

  Command listing = remoteCommand("sessions", "List the sessions of a function, or show one",
                                  listSessions, listOptions());
  listing.positionals = {function, {"SESSION", "Show only this one", false}};
  listing.examples = {{"nimbus sessions counter", ""},
                      {"nimbus sessions counter alice", ""},
                      {"nimbus sessions pause counter alice", ""}};

  const auto one = [&](const char* verb, const char* summary, RemoteAction action,
                       std::vector<Option> options = {}) {
    Command command =
        remoteCommand(fmt::format("sessions {}", verb), summary, action, std::move(options));
    command.positionals = {function, session};
    command.examples = {{fmt::format("nimbus sessions {} counter alice", verb), ""}};
    return command;
  };
  Command exporting =
      one("export", "Write a session to a file, or to standard output", exportSession);
  exporting.positionals.push_back({"FILE", "Where to; - is standard output", false});
  exporting.examples = {{"nimbus sessions export counter alice alice.json", ""}};
  Command importing =
      remoteCommand("sessions import", "Read a session that was exported", importSession);
  importing.positionals = {function, {"FILE", "Where from; - is standard input"}};
  importing.examples = {{"nimbus sessions import counter alice.json", ""}};
  return {
      listing,
      one("show", "Show a session", showSession),
      one("pause", "Let the running call finish and the others wait", pause),
      one("resume", "Go on after pause or drain", resume),
      one("drain", "Run what waits, accept nothing new, and wait until it is done", drain),
      one("delete", "Delete a session, its waiting calls and its state", deleteSession,
          {yesOption()}),
      exporting,
      importing,
  };
}

}  // namespace nimbus::cli
