#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/remote.h"

#include <fmt/format.h>

namespace nimbus::cli {
namespace {

Exit listFunctions(Remote& remote, const Arguments& arguments) {
  if (arguments.has("FUNCTION")) return show(remote, functionPath(arguments));
  using enum Shown::As;
  return list(remote, arguments, "/api/v1/functions",
              {{"FUNCTION", "id"},
               {"RUNTIME", "runtime"},
               {"VERSION", "version", Number},
               {"HANDLER", "handler"},
               {"UPDATED", "updated_at", Time}},
              "nothing is deployed yet: nimbus deploy DIR");
}

Exit showFunction(Remote& remote, const Arguments& arguments) {
  return show(remote, functionPath(arguments));
}

Exit deleteFunction(Remote& remote, const Arguments& arguments) {
  const std::string name = *arguments.one("FUNCTION");
  if (!remote.mayDestroy(arguments,
                         fmt::format("Delete {} with its sessions and their state?", name))) {
    return Exit::Failed;
  }
  return remote.change(removal(functionPath(arguments)), fmt::format("deleted {}", name));
}

Exit listVersions(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  return list(remote, arguments, functionPath(arguments, "/versions"),
              {{"VERSION", "version", Number},
               {"RUNTIME", "runtime"},
               {"HANDLER", "handler"},
               {"CREATED", "created_at", Time}},
              "it has no versions");
}

Exit rollBack(Remote& remote, const Arguments& arguments) {
  const std::string version = *arguments.one("VERSION");
  if (version.find_first_not_of("0123456789") != version.npos) {
    remote.context().error("VERSION must be a number", "nimbus functions versions FUNCTION");
    return Exit::Usage;
  }
  return remote.change(
      post(functionPath(arguments, "/rollback"), fmt::format(R"({{"version":{}}})", version)),
      fmt::format("{} is at version {}", *arguments.one("FUNCTION"), version));
}

}  // namespace

std::vector<Command> functionsCommands() {
  Command listing =
      remoteCommand("functions", "List functions, or show one", listFunctions, listOptions());
  listing.positionals = {{"FUNCTION", "Show only this one", false}};
  listing.examples = {{"nimbus functions", ""},
                      {"nimbus functions counter -o json", "all there is to know of one"},
                      {"nimbus functions rollback counter 3", ""}};

  const Positional function{"FUNCTION", "Its id"};
  Command showing = remoteCommand("functions show", "Show a function", showFunction);
  showing.positionals = {function};
  showing.examples = {{"nimbus functions show counter", ""}};

  Command versions = remoteCommand("functions versions", "List the versions of a function",
                                   listVersions, listOptions());
  versions.positionals = {function};
  versions.examples = {{"nimbus functions versions counter", ""}};

  Command rollback =
      remoteCommand("functions rollback", "Make an earlier version current", rollBack);
  rollback.positionals = {function, {"VERSION", "The number of the version"}};
  rollback.examples = {{"nimbus functions rollback counter 3", ""}};

  Command removing =
      remoteCommand("functions delete", "Delete a function, its sessions and their state",
                    deleteFunction, {yesOption()});
  removing.positionals = {function};
  removing.examples = {{"nimbus functions delete counter", ""}};
  return {listing, showing, versions, rollback, removing};
}

}  // namespace nimbus::cli
