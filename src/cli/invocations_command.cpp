#include "base/json.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/number.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ostream>

namespace nimbus::cli {
namespace {

constexpr std::string_view kPath = "/api/v1/invocations";

std::string pathOf(const Arguments& arguments, std::string_view rest = {}) {
  return fmt::format("{}/{}{}", kPath, client::encoded(*arguments.one("ID")), rest);
}

Exit listInvocations(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  const std::string target =
      std::string(kPath) + query({{"function_id", arguments.one("--function").value_or("")},
                                  {"session_key", arguments.one("--session").value_or("")},
                                  {"status", arguments.one("--status").value_or("")}});
  return list(remote, arguments, target,
              {{"ID", "request_id"},
               {"FUNCTION", "function_id"},
               {"SESSION", "session_key"},
               {"STATUS", "status"},
               {"ATTEMPTS", "attempts", Number},
               {"CREATED", "created_at", Time}},
              "there are none");
}

Exit showInvocation(Remote& remote, const Arguments& arguments) {
  return show(remote, pathOf(arguments));
}

bool hasEnded(std::string_view status) {
  constexpr std::array<std::string_view, 4> kEnds = {"succeeded", "failed", "cancelled", "parked"};
  return std::find(kEnds.begin(), kEnds.end(), status) != kEnds.end();
}

Exit waitFor(Remote& remote, const Arguments& arguments) {
  using Clock = std::chrono::steady_clock;
  constexpr Millis kAtOnce{20'000};  // how long one question waits
  std::int64_t patience = Millis(std::chrono::hours(24)).count();
  if (!readNumber(arguments, "--timeout-ms", 0, patience, patience, remote.context())) {
    return Exit::Usage;
  }
  const auto deadline = Clock::now() + Millis(patience);
  while (true) {
    const auto left =
        std::max(Millis(0), std::chrono::duration_cast<Millis>(deadline - Clock::now()));
    const auto answer =
        remote.get(pathOf(arguments, fmt::format("?wait_ms={}", std::min(left, kAtOnce).count())));
    if (!answer) return Exit::Failed;
    const auto invocation = parseJson(answer->body);
    const std::string status(invocation ? invocation->string("status").value_or("") : "");
    if (hasEnded(status)) {
      showObject(remote, answer->body);
      return status == "succeeded" ? Exit::Ok : Exit::Failed;
    }
    if (Clock::now() >= deadline) {
      remote.context().error(fmt::format("it is still {}", status));
      return Exit::Failed;
    }
  }
}

Exit cancel(Remote& remote, const Arguments& arguments) {
  return remote.change(removal(pathOf(arguments)), "cancelled");
}

Exit replay(Remote& remote, const Arguments& arguments) {
  return remote.change(post(pathOf(arguments, "/replay")), "it will run again");
}

}  // namespace

std::vector<Command> invocationsCommands() {
  using enum Option::Takes;
  std::vector<Option> options = {
      {"--function", "Only of this function", OneValue, "FUNCTION"},
      {"--session", "Only of this session", OneValue, "KEY"},
      {"--status", "queued, running, retrying, succeeded, failed, cancelled or parked", OneValue,
       "STATUS"},
  };
  for (Option& option : listOptions()) options.push_back(std::move(option));
  Command listing =
      remoteCommand("invocations", "List asynchronous calls", listInvocations, std::move(options));
  listing.examples = {{"nimbus invocations --status parked", "what needs a person"},
                      {"nimbus invocations replay ID", ""}};

  const auto one = [](const char* verb, const char* summary, RemoteAction action,
                      std::vector<Option> more = {}) {
    Command command =
        remoteCommand(fmt::format("invocations {}", verb), summary, action, std::move(more));
    command.positionals = {{"ID", "As `nimbus invoke --async` printed it"}};
    command.examples = {{fmt::format("nimbus invocations {} ID", verb), ""}};
    return command;
  };
  return {
      listing,
      one("show", "Show a call and what came of it", showInvocation),
      one("wait", "Wait until a call has ended; 1 unless it succeeded", waitFor,
          {{"--timeout-ms", "How long", OneValue, "MS"}}),
      one("cancel", "Cancel a call", cancel),
      one("replay", "Run a failed or parked call again", replay),
  };
}

}  // namespace nimbus::cli
