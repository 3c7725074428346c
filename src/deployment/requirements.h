#pragma once
// What a function needs besides its own code: requirements.txt and package.json.
//
// Installers run outside of whatever a function is shut into, so what they are told by strangers is
// read here first: only names of packages pass, and of files that lie within the code. Nothing that
// is installed is run meanwhile.

#include "base/result.h"
#include "function/definition.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::deployment {

struct Requirements {
  std::string file;                // that says so
  std::vector<std::string> files;  // what decides what is installed, that file included
  bool needs_code = false;         // packages lie within the code: all of it decides
  bool is_locked = false;          // a lock file says which versions exactly
};

// Of the code that lies in `directory`; nothing if it needs nothing, or has brought it along.
// Unprocessable, with the fields `file` and `line` where there are such, for what is refused.
Result<std::optional<Requirements>> requirementsOf(function::Runtime runtime,
                                                   const std::filesystem::path& directory);

}  // namespace nimbus::deployment
