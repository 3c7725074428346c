#pragma once
// The wiring: the one place where concrete classes meet.

#include "base/result.h"
#include "server/config.h"

#include <optional>
#include <ostream>
#include <string>

namespace nimbus::server {

struct RunOptions {
  bool authenticate = true;
  std::optional<std::string> functions;
};

struct Output {
  std::ostream& out;
  std::ostream& err;
};

// What must not be served, whatever else is right: without keys, to more than this machine; or from
// a store that this version does not have. Touches nothing.
Result<> checkRun(const Config& config, const RunOptions& options);

// Serves until SIGTERM or SIGINT; then lets running requests finish for `server.drain_ms` and
// returns, or ends the process a second after that. A second signal ends it at once. Writes one
// line to `out` when requests are accepted: "nimbus ready on http://HOST:PORT". If it had to make
// the administrator key it writes that to `err` before, once: the next start finds the key made.
//
// Errors: it could not start, and the message says what whoever started it can do.
Result<> runServer(const Config& config, const RunOptions& options, Output output);

}  // namespace nimbus::server
