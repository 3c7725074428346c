#pragma once
// What runs functions: the interpreters of this machine and our side of them.

#include "base/result.h"
#include "function/definition.h"
#include "runtime/keeper.h"
#include "runtime/launcher.h"

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::deployment {

struct Paths {
  std::filesystem::path sdk;  // holds python/, node/ and cpp/
  std::string python;         // the program; empty: there is none
  std::string node;
};

// Where the SDKs are: beside the source or installed, as seen from the program that runs.
Result<std::filesystem::path> findSdk();

// The first of the names that is a program in PATH; empty if there is none.
std::string findProgram(std::initializer_list<std::string_view> names);

// A program, by its path, with what it needs to know of where it runs and nothing of the server's.
runtime::Command cleanCommand(std::vector<std::string> arguments);

// Any thread may use any member.
class Interpreters {
 public:
  Interpreters(runtime::Keeper& keeper, Paths paths);

  // Unprocessable if this machine cannot run it.
  Result<std::shared_ptr<runtime::Launcher>> launcherOf(const function::Definition& definition,
                                                        const std::filesystem::path& directory);

  const Paths& paths() const { return paths_; }

 private:
  runtime::Keeper& keeper_;
  const Paths paths_;
  std::shared_ptr<runtime::Launcher> python_;
  std::shared_ptr<runtime::Launcher> node_;
};

}  // namespace nimbus::deployment
