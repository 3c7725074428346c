#include "cli/commands.h"
#include "cli/listing.h"
#include "cli/remote.h"

namespace nimbus::cli {
namespace {

Exit instances(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  return list(remote, arguments, "/api/v1/instances",
              {{"INSTANCE", "id"},
               {"ADDRESS", "address"},
               {"VERSION", "version"},
               {"SESSIONS", "sessions", Number},
               {"FLOWS", "flows", Number},
               {"STARTED", "started_at", Time}},
              "there are none");
}

Exit audit(Remote& remote, const Arguments& arguments) {
  using enum Shown::As;
  return list(remote, arguments, "/api/v1/audit",
              {{"TIME", "time", Time},
               {"WHO", "principal"},
               {"ACTION", "action"},
               {"ON", "target"},
               {"OUTCOME", "outcome"},
               {"STATUS", "status", Number},
               {"FROM", "remote_address"}},
              "nothing has been done yet");
}

}  // namespace

std::vector<Command> instancesCommands() {
  Command nodes = remoteCommand("instances", "List the servers that share this one's data",
                                instances, listOptions());
  nodes.examples = {{"nimbus instances", ""}};
  Command acts = remoteCommand("audit", "List what administrators did and who was refused", audit,
                               listOptions());
  acts.examples = {{"nimbus audit --limit 20", ""}};
  return {nodes, acts};
}

}  // namespace nimbus::cli
