#pragma once
// Functions in folders, sent to a server.

#include "base/result.h"
#include "cli/backend.h"
#include "client/client.h"

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace nimbus::cli {

struct FunctionFolder {
  std::string name;
  std::filesystem::path path;
};

// `directory` itself if it is a function: has a main.* or a function.yaml or function.json; else
// the folders in it that are. Empty if there is none.
std::vector<FunctionFolder> functionsIn(const std::filesystem::path& directory);

struct Deployed {
  enum class Change { Created, Updated, None };  // of its code
  Change change = Change::None;
  std::int64_t version = 0;
  std::string runtime;
  std::string resource;  // the server's answer
};

// `before`: its version as far as is known, 0 if there is none. Errors have the server's words; the
// function that is there stays as it is.
Result<Deployed> deployFolder(client::Client& client, const Backend& backend,
                              const FunctionFolder& folder, std::int64_t before);

// The version that the server has of it; 0 if it has none.
Result<std::int64_t> deployedVersion(client::Client& client, const std::string& name);

}  // namespace nimbus::cli
