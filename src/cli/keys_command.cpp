#include "base/json.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <ostream>

namespace nimbus::cli {
namespace {

Exit listKeys(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  return list(remote, arguments, "/api/v1/keys",
              {{"ID", "id"},
               {"NAME", "name"},
               {"SCOPES", "scopes", Names},
               {"PREFIX", "session_prefix"},
               {"EXPIRES", "expires_at", Time},
               {"CREATED", "created_at", Time}},
              "there are none but the administrator's");
}

Exit createKey(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const std::vector<std::string> scopes = arguments.all("--scope");
  if (scopes.empty()) {
    context.error("a key without a scope can do nothing",
                  "--scope invoke, or --scope invoke:FUNCTION, functions:read, admin, …");
    return Exit::Usage;
  }
  std::string body = R"({"name":)";
  appendJsonString(body, *arguments.one("NAME"));
  body += R"(,"scopes":[)";
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    if (i != 0) body += ',';
    appendJsonString(body, scopes[i]);
  }
  body += ']';
  const auto addText = [&](const char* option, const char* member) {
    const auto value = arguments.one(option);
    if (!value) return;
    body += fmt::format(",\"{}\":", member);
    appendJsonString(body, *value);
  };
  addText("--expires-at", "expires_at");
  addText("--session-prefix", "session_prefix");
  if (const auto limit = arguments.one("--rate-limit")) body += R"(,"rate_limit":)" + *limit;
  body += '}';
  if (!checkJson(body)) {
    context.error("--rate-limit must be a number of calls per minute");
    return Exit::Usage;
  }
  const auto answer = remote.ask(post("/api/v1/keys", body));
  if (!answer) return Exit::Failed;
  const auto created = parseJson(answer->body);
  if (remote.wantsJson() || !created || !created->string("key")) {
    context.out << answer->body << '\n';
    return Exit::Ok;
  }
  context.out << *created->string("key") << '\n';
  context.err << "This is the only time it is shown.\n";
  return Exit::Ok;
}

Exit deleteKey(Remote& remote, const Arguments& arguments) {
  const std::string id = *arguments.one("ID");
  return remote.change(removal("/api/v1/keys/" + client::encoded(id)),
                       fmt::format("deleted {}; it is refused from now on", id));
}

}  // namespace

std::vector<Command> keysCommands() {
  using enum Option::Takes;
  Command listing = remoteCommand("keys", "List API keys", listKeys, listOptions());
  listing.examples = {{"nimbus keys", ""},
                      {"nimbus keys create website --scope invoke:counter", ""}};

  Command creating =
      remoteCommand("keys create", "Make an API key and print it, once", createKey,
                    {{"--scope", "What it may do; may be repeated", ManyValues, "SCOPE"},
                     {"--expires-at", "Until when, such as 2030-01-01T00:00:00Z", OneValue, "TIME"},
                     {"--session-prefix", "Only sessions whose keys begin so", OneValue, "PREFIX"},
                     {"--rate-limit", "Calls per minute", OneValue, "N"}});
  creating.positionals = {{"NAME", "What people call it"}};
  creating.examples = {
      {"nimbus keys create website --scope invoke:counter --session-prefix web-", ""},
      {"nimbus keys create prometheus --scope metrics:read", ""}};

  Command removing = remoteCommand("keys delete", "Delete an API key; it ends at once", deleteKey);
  removing.positionals = {{"ID", "As `nimbus keys` lists it"}};
  removing.examples = {{"nimbus keys delete ID", ""}};
  return {listing, creating, removing};
}

}  // namespace nimbus::cli
