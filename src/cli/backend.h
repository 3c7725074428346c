#pragma once
// What the command line needs of the server that is in the same binary. server/ implements it.

#include "base/result.h"
#include "base/settings.h"

#include <filesystem>
#include <optional>
#include <ostream>
#include <string>

namespace nimbus::cli {

struct ServeOptions {
  bool authenticate = true;
  std::optional<std::string> functions;  // a directory of functions to deploy at start
};

struct Output {
  std::ostream& out;
  std::ostream& err;
};

// What the loaded settings say about this machine.
struct Place {
  std::string listen;
  std::string data;
  std::string redis;  // empty unless the store is there
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Declared and bound; the command line loads them.
  virtual Settings& settings() = 0;

  // What the loaded settings have wrong between them.
  virtual Settings::Problems crossCheck() const = 0;

  virtual Place place() const = 0;

  // The body of the PUT that deploys a folder. Errors say what is wrong with the folder.
  virtual Result<std::string> folderBody(const std::filesystem::path& folder) const = 0;

  // Combinations of settings and options that must not be served; asked before serve().
  virtual Result<> checkServe(const ServeOptions& options) const = 0;

  // Serves with the loaded settings until a signal ends it. Writes the ready line to `out`, and to
  // `err` what only whoever starts the server may see.
  virtual Result<> serve(const ServeOptions& options, Output output) = 0;
};

}  // namespace nimbus::cli
