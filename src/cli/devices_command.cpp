#include "base/json.h"
#include "base/json_text.h"
#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <ostream>

namespace nimbus::cli {
namespace {

std::string pathOf(const Arguments& arguments, std::string_view verb = {}) {
  return fmt::format("/api/v1/devices/{}{}", client::encoded(*arguments.one("ID")), verb);
}

std::string scopesText(const Arguments& arguments) {
  std::string body = R"({"scopes":[)";
  const std::vector<std::string> scopes = arguments.all("--scope");
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    if (i != 0) body += ',';
    appendJsonString(body, scopes[i]);
  }
  return body + "]}";
}

Exit devices(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  return list(remote, arguments, "/api/v1/devices",
              {{"ID", "device_id"},
               {"NAME", "name"},
               {"STATUS", "status"},
               {"SCOPES", "scopes", Names},
               {"CREATED", "created_at", Time}},
              "no device has asked to be paired");
}

Exit approve(Remote& remote, const Arguments& arguments) {
  return remote.change(post(pathOf(arguments, "/approve"), scopesText(arguments)),
                       fmt::format("approved {}", *arguments.one("ID")));
}

Exit reject(Remote& remote, const Arguments& arguments) {
  return remote.change(post(pathOf(arguments, "/reject")),
                       fmt::format("rejected {}", *arguments.one("ID")));
}

Exit revoke(Remote& remote, const Arguments& arguments) {
  return remote.change(post(pathOf(arguments, "/revoke")),
                       fmt::format("revoked {}; it is refused from now on", *arguments.one("ID")));
}

Exit rotate(Remote& remote, const Arguments& arguments) {
  const auto answer = remote.ask(post(pathOf(arguments, "/rotate")));
  if (!answer) return Exit::Failed;
  Context& context = remote.context();
  const auto rotated = parseJson(answer->body);
  if (remote.wantsJson() || !rotated || !rotated->string("token")) {
    context.out << answer->body << '\n';
    return Exit::Ok;
  }
  context.out << *rotated->string("token") << '\n';
  context.err << "This is the only time it is shown; the old one is refused from now on.\n";
  return Exit::Ok;
}

Exit setScopes(Remote& remote, const Arguments& arguments) {
  client::Request request = post(pathOf(arguments, "/scopes"), scopesText(arguments));
  request.method = "PUT";
  return remote.change(request, fmt::format("changed {}", *arguments.one("ID")));
}

Exit sendEvent(Remote& remote, const Arguments& arguments) {
  const std::string data = arguments.one("--data").value_or("null");
  if (!checkJson(data)) {
    remote.context().error("--data is no JSON", R"(--data '{"volume": 3}')");
    return Exit::Usage;
  }
  std::string body = R"({"type":)";
  appendJsonString(body, *arguments.one("TYPE"));
  body.append(R"(,"data":)").append(data).append("}");
  return remote.change(post(pathOf(arguments, "/events"), body),
                       fmt::format("sent; {} fetches it when it polls", *arguments.one("ID")));
}

}  // namespace

std::vector<Command> devicesCommands() {
  using enum Option::Takes;
  const Positional id{"ID", "As `nimbus devices` lists it"};
  const Option scope{"--scope", "What it may do beside fetching its events; may be repeated",
                     ManyValues, "SCOPE"};
  Command listing = remoteCommand("devices", "List devices and those that want to be paired",
                                  devices, listOptions());
  listing.examples = {{"nimbus devices", ""},
                      {"nimbus devices approve ID --scope invoke:lamp", ""}};

  Command approving = remoteCommand("devices approve", "Let a device in", approve, {scope});
  approving.positionals = {id};
  approving.examples = {{"nimbus devices approve ID --scope invoke:lamp", ""}};
  Command rejecting = remoteCommand("devices reject", "Do not let a device in", reject);
  rejecting.positionals = {id};
  rejecting.examples = {{"nimbus devices reject ID", ""}};
  Command revoking = remoteCommand("devices revoke", "End a device; it ends at once", revoke);
  revoking.positionals = {id};
  revoking.examples = {{"nimbus devices revoke ID", ""}};
  Command rotating =
      remoteCommand("devices rotate", "Give a device another token and print it, once", rotate);
  rotating.positionals = {id};
  rotating.examples = {{"nimbus devices rotate ID", ""}};
  Command changing =
      remoteCommand("devices scopes", "Say what a device may do", setScopes, {scope});
  changing.positionals = {id};
  changing.examples = {{"nimbus devices scopes ID --scope invoke:lamp --scope sessions:read", ""},
                       {"nimbus devices scopes ID", "nothing but its events"}};
  Command sending =
      remoteCommand("devices send", "Send a device an event", sendEvent,
                    {{"-d,--data", "What it is told", OneValue, "JSON"}}, DataOption::TakenForJson);
  sending.positionals = {id, {"TYPE", "What kind of event"}};
  sending.examples = {{R"(nimbus devices send ID volume --data '{"level": 3}')", ""}};
  return {listing, approving, rejecting, revoking, rotating, changing, sending};
}

}  // namespace nimbus::cli
