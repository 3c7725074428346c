#pragma once
// Functions that lie in folders of this machine: `nimbus serve --functions DIR`.
//
// A folder is a function, by its name; its files are the function's. `function.yaml` or
// `function.json` beside them may hold whatever a `PUT` of the function may, but for its code.

#include "base/result.h"
#include "base/task.h"
#include "deployment/deployments.h"

#include <filesystem>
#include <string>

namespace nimbus::deployment {

// The body of the `PUT` that deploys the folder. Where nothing else is said the runtime follows
// from the file main.py, main.js, main.mjs or main.cpp. Left out are README.md and tests of the
// folder itself, and node_modules, .git, __pycache__ and .nimbus wherever they are. Blocks.
Result<std::string> bodyOfFolder(const std::filesystem::path& folder);

// Deploys every folder in `directory`, one after another, as a PUT would: what is as it was makes
// no new version, and what the folder does not say stays as it is. One that cannot be deployed is
// logged and does not hinder the others. Blocks while it reads.
Task<> deployFolders(Deployments& deployments, std::filesystem::path directory);

}  // namespace nimbus::deployment
