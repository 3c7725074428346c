#include "cli/commands.h"
#include "cli/input.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <ostream>

namespace nimbus::cli {
namespace {

// What `--function-scope` makes of "FUNCTION SESSION KEY": there is no session, and the key is
// where it would be.
struct Target {
  std::string path;
  std::optional<std::string> key;

  std::string keyPath(std::string_view rest = {}) const {
    return fmt::format("{}/{}{}", path, client::encoded(*key), rest);
  }
};

std::optional<Target> targetOf(Remote& remote, const Arguments& arguments) {
  if (arguments.has("--function-scope")) {
    if (arguments.has("KEY")) {
      remote.context().error("--function-scope: there is no session in function scope",
                             "nimbus state FUNCTION KEY --function-scope");
      return std::nullopt;
    }
    return Target{functionPath(arguments, "/function-state"), arguments.one("SESSION")};
  }
  if (!arguments.has("SESSION")) {
    remote.context().error("SESSION is required", "or --function-scope, which has none");
    return std::nullopt;
  }
  return Target{functionPath(arguments, "/state/" + client::encoded(*arguments.one("SESSION"))),
                arguments.one("KEY")};
}

// With a key, which must be there.
std::optional<Target> keyOf(Remote& remote, const Arguments& arguments) {
  auto target = targetOf(remote, arguments);
  if (target && !target->key) {
    remote.context().error("KEY is required", "nimbus state FUNCTION SESSION lists them");
    return std::nullopt;
  }
  return target;
}

Exit showState(Remote& remote, const Arguments& arguments) {
  const auto target = targetOf(remote, arguments);
  if (!target) return Exit::Usage;
  if (!target->key) {
    using enum Shown::As;
    return list(remote, arguments,
                target->path + query({{"pattern", arguments.one("--pattern").value_or("")}}),
                {{"KEY", "key"},
                 {"SIZE", "size", Bytes},
                 {"VERSION", "version", Number},
                 {"TTL", "ttl", Number},
                 {"UPDATED", "updated_at", Time}},
                "it has no state", "keys");
  }
  const auto answer = remote.get(target->keyPath());
  if (!answer) return Exit::Failed;
  remote.context().out << answer->body << '\n';
  return Exit::Ok;
}

Exit setState(Remote& remote, const Arguments& arguments) {
  const auto target = keyOf(remote, arguments);
  if (!target) return Exit::Usage;
  const auto value = readJson(*arguments.one("--value"), "--value", remote.context());
  if (!value) return Exit::Usage;
  client::Request request;
  request.method = "PUT";
  request.target = target->keyPath(query({{"ttl", arguments.one("--ttl").value_or("")}}));
  request.body = *value;
  if (const auto version = arguments.one("--if-version")) {
    request.headers.emplace_back("If-Match", "\"" + *version + "\"");
  }
  if (arguments.has("--if-absent")) request.headers.emplace_back("If-None-Match", "*");
  return remote.change(request, "set");
}

Exit setPositional(Remote& remote, const Arguments& arguments) {
  // "FUNCTION SESSION KEY VALUE", or in function scope "FUNCTION KEY VALUE".
  const bool has_no_session = arguments.has("--function-scope");
  Arguments given = arguments;
  const auto value = arguments.one(has_no_session ? "KEY" : "VALUE");
  if (!value || (has_no_session && arguments.has("VALUE"))) {
    remote.context().error(
        has_no_session ? "FUNCTION KEY VALUE are required, and nothing else" : "VALUE is required",
        "nimbus state set --help");
    return Exit::Usage;
  }
  if (has_no_session) given.remove("KEY");
  given.add("--value", {*value});
  return setState(remote, given);
}

Exit incrState(Remote& remote, const Arguments& arguments) {
  const auto target = keyOf(remote, arguments);
  if (!target) return Exit::Usage;
  const std::string delta = arguments.one("--by").value_or("1");
  if (delta.empty() || delta.find_first_not_of("-0123456789") != delta.npos) {
    remote.context().error("--by must be a whole number");
    return Exit::Usage;
  }
  const auto answer =
      remote.ask(post(target->keyPath("/incr"), fmt::format(R"({{"delta":{}}})", delta)));
  if (!answer) return Exit::Failed;
  remote.context().out << answer->body << '\n';
  return Exit::Ok;
}

Exit deleteState(Remote& remote, const Arguments& arguments) {
  const auto target = targetOf(remote, arguments);
  if (!target) return Exit::Usage;
  if (!target->key && !arguments.has("--all")) {
    remote.context().error("KEY is required", "--all deletes every key");
    return Exit::Usage;
  }
  return remote.change(removal(target->path + query({{"key", target->key.value_or("")}})),
                       "deleted");
}

}  // namespace

std::vector<Command> stateCommands() {
  using enum Option::Takes;
  const Positional function{"FUNCTION", "Its id"};
  const Positional session{"SESSION", "The key of the session", false};
  const Option scope{"--function-scope", "State of the function, not of a session: name none"};

  std::vector<Option> options = listOptions();
  options.push_back({"--pattern", "Only keys like this, such as user:*", OneValue, "GLOB"});
  options.push_back(scope);
  Command showing = remoteCommand("state", "List the state of a session, or print a value",
                                  showState, std::move(options));
  showing.positionals = {function, session, {"KEY", "Print only this value", false}};
  showing.examples = {{"nimbus state counter alice", ""},
                      {"nimbus state counter alice visits", "the value as it was stored"},
                      {"nimbus state counter total --function-scope", ""},
                      {"nimbus state set counter alice visits 7", ""}};

  const Positional key{"KEY", "The key", false};
  Command setting =
      remoteCommand("state set", "Set a value", setPositional,
                    {scope,
                     {"--ttl", "Seconds until it expires; -1: never", OneValue, "SECONDS"},
                     {"--if-version", "Only if this is its version", OneValue, "N"},
                     {"--if-absent", "Only if there is none"}});
  setting.positionals = {
      function, session, key, {"VALUE", "JSON, @FILE, or - for standard input", false}};
  setting.examples = {{R"(nimbus state set counter alice profile '{"name": "Al"}')", ""},
                      {"nimbus state set counter alice visits 7 --if-version 3", ""},
                      {"nimbus state set counter alice level -- -1", "a value that begins with -"}};

  Command counting = remoteCommand("state incr", "Add to a number", incrState,
                                   {scope, {"--by", "How much; 1", OneValue, "N"}});
  counting.positionals = {function, session, key};
  counting.examples = {{"nimbus state incr counter alice visits --by 10", ""}};

  Command removing = remoteCommand("state delete", "Delete a value, or all", deleteState,
                                   {scope, {"--all", "Every key"}});
  removing.positionals = {function, session, key};
  removing.examples = {{"nimbus state delete counter alice visits", ""},
                       {"nimbus state delete counter alice --all", ""}};
  return {showing, setting, counting, removing};
}

}  // namespace nimbus::cli
