#pragma once
// The server as the command line sees it.

#include "cli/backend.h"
#include "server/config.h"

namespace nimbus::server {

class Backend final : public cli::Backend {
 public:
  Backend() { declareSettings(settings_, config_); }

  Settings& settings() override { return settings_; }
  Settings::Problems crossCheck() const override;
  cli::Place place() const override;
  Result<std::string> folderBody(const std::filesystem::path& folder) const override;
  Result<> checkServe(const cli::ServeOptions& options) const override;
  Result<> serve(const cli::ServeOptions& options, cli::Output output) override;

 private:
  Config config_;
  Settings settings_;
};

}  // namespace nimbus::server
