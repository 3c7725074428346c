#include "server/backend.h"

#include "base/log.h"
#include "deployment/folder.h"
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

cli::Place Backend::place() const {
  const bool is_redis = config_.gateway.store_backend == StoreBackend::Redis;
  return {config_.server.listen, config_.server.data, is_redis ? config_.gateway.redis.url : ""};
}

Result<std::string> Backend::folderBody(const std::filesystem::path& folder) const {
  return deployment::bodyOfFolder(folder);
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
