#include "base/json.h"
#include "cli/commands.h"
#include "cli/input.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <optional>
#include <ostream>

namespace nimbus::cli {
namespace {

// Nobody knows how long a function may take; this is longer than any should.
constexpr Millis kPatience = std::chrono::hours(24);

std::optional<std::string> memberOf(const std::string& object, std::string_view name) {
  const auto members = splitObject(object);
  if (!members) return std::nullopt;
  for (const RawMember& member : *members) {
    if (member.name == name) return std::string(member.value);
  }
  return std::nullopt;
}

std::string stringOf(const std::string& object, std::string_view name) {
  const auto parsed = parseJson(object);
  return parsed ? std::string(parsed->string(name).value_or("")) : std::string();
}

// What a person likes to know and a program does not.
void describe(Remote& remote, const Arguments& arguments, const client::Answer& answer) {
  Context& context = remote.context();
  if (!context.err_is_terminal || !context.out_is_terminal) return;
  std::string text = *arguments.one("FUNCTION");
  if (const auto session = arguments.one("--session")) {
    text += fmt::format(" · session {} #{}", *session, answer.header("Nimbus-Session-Seq"));
  }
  if (const auto duration = memberOf(answer.body, "duration_ms")) {
    text += fmt::format(" · {} ms", *duration);
  }
  if (!answer.header("Idempotent-Replayed").empty()) text += " · replayed";
  context.err << (context.colour ? "\x1b[2m" + text + "\x1b[0m" : text) << '\n';
}

Exit invoke(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const auto payload = readJson(arguments.one("--data").value_or("null"), "--data", context);
  if (!payload) return Exit::Usage;
  client::Request request =
      post(functionPath(arguments, "/invoke") +
               query({{"session_key", arguments.one("--session").value_or("")},
                      {"mode", arguments.has("--async") ? "async" : ""},
                      {"timeout_ms", arguments.one("--timeout-ms").value_or("")},
                      {"delay_ms", arguments.one("--delay-ms").value_or("")},
                      {"priority", arguments.one("--priority").value_or("")},
                      {"busy", arguments.one("--busy").value_or("")}}),
           R"({"payload":)" + *payload + "}");
  request.timeout = kPatience;
  if (const auto key = arguments.one("--idempotency-key")) {
    request.headers.emplace_back("Idempotency-Key", *key);
  }
  const auto answer = remote.client().send(request);
  if (!answer) {
    remote.explain(answer.error());
    return Exit::Failed;
  }
  // A function may choose a status of its own; what it says is then an answer like any other.
  const bool is_problem = answer->header("Content-Type").starts_with("application/problem");
  if (is_problem) {
    if (remote.wantsJson()) {
      context.out << answer->body << '\n';
    } else {
      remote.explain(*answer, request.target);
    }
    return Exit::Failed;
  }
  if (remote.wantsJson()) {
    context.out << (answer->body.empty() ? "null" : answer->body) << '\n';
  } else if (arguments.has("--async")) {
    context.out << stringOf(answer->body, "request_id") << '\n';
  } else {
    context.out << memberOf(answer->body, "body").value_or("") << '\n';
    describe(remote, arguments, *answer);
  }
  if (answer->status < 400) return Exit::Ok;
  if (!remote.wantsJson()) context.warning(fmt::format("its status is {}", answer->status));
  return Exit::Failed;
}

}  // namespace

std::vector<Command> invokeCommands() {
  using enum Option::Takes;
  Command command = remoteCommand(
      "invoke", "Call a function", invoke,
      {
          {"-s,--session", "The session; its calls run one at a time, in order", OneValue, "KEY"},
          {"-d,--data", "The payload: JSON, @FILE, or - for standard input", OneValue, "JSON"},
          {"--async", "Do not wait: print the id by which `nimbus invocations` knows the call"},
          {"--timeout-ms", "How long it may run", OneValue, "MS"},
          {"--delay-ms", "With --async: run it later", OneValue, "MS"},
          {"--priority", "0 to 9, 9 first; between sessions", OneValue, "N"},
          {"--busy", "queue, or reject when the session is busy", OneValue, "HOW"},
          {"--idempotency-key", "The same key again repeats the answer, not the call", OneValue,
           "KEY"},
      },
      DataOption::TakenForJson);
  command.details =
      "Prints what the function returned; with -o json the whole answer. A function that fails, "
      "or\n"
      "that answers with a status of 400 or more, is exit code 1.";
  command.positionals = {{"FUNCTION", "Its id"}};
  command.examples = {
      {R"(nimbus invoke counter --session alice --data '{"add": 2}')", ""},
      {"nimbus invoke counter -s alice -d @event.json -o json", ""},
      {"nimbus invoke report --async --idempotency-key today", "once, however often it is said"},
  };
  return {command};
}

}  // namespace nimbus::cli
