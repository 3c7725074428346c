#include "server/backend.h"

#include "base/log.h"
#include "server/run_server.h"

namespace nimbus::server {
namespace {

RunOptions runOptions(const cli::ServeOptions& options) {
  return {options.authenticate, options.functions};
}

}  // namespace

Settings::Problems Backend::crossCheck() const {
  return server::crossCheck(config_, settings_);
}

Result<> Backend::checkServe(const cli::ServeOptions& options) const {
  return checkRun(config_, runOptions(options));
}

Result<> Backend::serve(const cli::ServeOptions& options, cli::Output output) {
  log::configure(config_.log.level, config_.log.format);
  for (const Settings::Problem& warning : settings_.warnings()) log::warn(warning.text());
  return runServer(config_, runOptions(options), {output.out, output.err});
}

}  // namespace nimbus::server
