#pragma once
// What runs functions: the interpreters of this machine and our side of them.

#include "base/result.h"
#include "function/definition.h"
#include "runtime/keeper.h"
#include "runtime/launcher.h"

#include <array>
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

// What of the host must be seen in cells for these to run there, besides the system.
std::vector<runtime::CellContents::Seen> seenInCells(const Paths& paths);

// Whether functions can run in cells of this machine, found out by doing it. Unavailable, with the
// reason, if not.
Task<Result<>> tryCells(runtime::Cells& cells, const Paths& paths);

// Code of a function on the host.
struct CodeOnHost {
  std::filesystem::path directory;
  std::filesystem::path dependencies = {};  // packages it needs; empty: none
};

// Where a function runs: what of its code is to be seen there, and by which path.
struct Residence {
  runtime::Home home;
  // As the function sees them.
  std::filesystem::path directory;
  std::filesystem::path dependencies;
  std::vector<runtime::CodeMount> mounts;
};

// Any thread may use any member.
class Interpreters {
 public:
  // `cells` must outlive this. `network`: what functions in cells get if they ask for one.
  Interpreters(runtime::Cells& cells, Paths paths, runtime::Network network);

  Residence residenceOf(const function::Definition& definition, const CodeOnHost& code) const;

  // Unprocessable if this machine cannot run it.
  Result<std::shared_ptr<runtime::Launcher>> launcherOf(const function::Definition& definition,
                                                        const CodeOnHost& code);

  const Paths& paths() const { return paths_; }

 private:
  Result<std::shared_ptr<runtime::Launcher>> programLauncher(const function::Definition& definition,
                                                             const std::filesystem::path& directory,
                                                             const Residence& residence) const;

  // Those of a language: for processes on the host, and in cells without and with network.
  using Launchers = std::array<std::shared_ptr<runtime::Launcher>, 3>;

  runtime::Cells& cells_;
  const Paths paths_;
  const runtime::Network network_;
  Launchers python_;
  Launchers node_;
};

}  // namespace nimbus::deployment
