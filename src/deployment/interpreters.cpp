#include "deployment/interpreters.h"

#include "deployment/native_build.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <system_error>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;

// Processes kept ready for functions in JavaScript, whose interpreter takes long to start.
constexpr std::size_t kSpareNodes = 1;

// What an interpreter needs to know of where it runs, and nothing of the server's.
std::vector<std::string> cleanEnvironment() {
  std::vector<std::string> environment;
  for (const char* const name : {"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR"}) {
    if (const char* const value = std::getenv(name)) {
      environment.push_back(std::string(name) + "=" + value);
    }
  }
  return environment;
}

// A cell has no folders of users'.
void moveHome(runtime::Command& command) {
  std::erase_if(command.environment, [](const std::string& variable) {
    return variable.starts_with("HOME=") || variable.starts_with("TMPDIR=");
  });
  command.environment.emplace_back("HOME=/tmp");
}

// Beyond what the process has when it is ready: the function's own, and room for threads and for
// what interpreters need now and then.
std::size_t memoryLimitOf(const function::Definition& definition) {
  if (definition.memory_mb == 0) return 0;
  constexpr std::size_t kSlack = 64;
  constexpr std::size_t kStack = 8;
  const std::size_t stacks = kStack * definition.concurrency;
  return (definition.memory_mb + kSlack + stacks) * 1024 * 1024;
}

}  // namespace

runtime::Command cleanCommand(std::vector<std::string> arguments) {
  runtime::Command command;
  command.arguments = std::move(arguments);
  command.environment = cleanEnvironment();
  command.directory = "/";
  return command;
}

Result<fs::path> findSdk() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> places;
  if (const char* const told = std::getenv("NIMBUS_SDK")) places.emplace_back(told);
  places.push_back(program.parent_path().parent_path() / "sdk");
  places.push_back(program.parent_path().parent_path() / "share/nimbus/sdk");
  for (const fs::path& place : places) {
    if (fs::exists(place / "python/zygote.py", ignored)) return fs::canonical(place);
  }
  return Error(Code::Internal,
               fmt::format("the SDKs are not where they belong ({}); set NIMBUS_SDK",
                           places.back().string()));
}

std::string findProgram(std::initializer_list<std::string_view> names) {
  const char* const path = std::getenv("PATH");
  for (const std::string_view name : names) {
    std::istringstream folders(path != nullptr ? path : "/usr/local/bin:/usr/bin:/bin");
    for (std::string folder; std::getline(folders, folder, ':');) {
      const fs::path program = fs::path(folder) / name;
      if (::access(program.c_str(), X_OK) == 0) return program.string();
    }
  }
  return {};
}

std::vector<runtime::CellContents::Seen> seenInCells(const Paths& paths) {
  std::vector<runtime::CellContents::Seen> seen = {
      {paths.sdk.string(), paths.sdk.string()},
      {(paths.sdk / "node/nimbus-state").string(), "/node_modules/nimbus-state"}};
  for (const std::string& program : {paths.python, paths.node}) {
    std::error_code failed;
    const fs::path real = fs::canonical(program, failed);
    if (failed || real.string().starts_with("/usr/")) continue;
    // With the libraries that belong to it: PREFIX/bin/node needs PREFIX/lib.
    const std::string prefix = real.parent_path().parent_path().string();
    seen.push_back({prefix, prefix});
  }
  return seen;
}

Task<Result<>> tryCells(runtime::Cells& cells, const Paths& paths) {
  const std::string program = findProgram({"/usr/bin/test", "test"});
  if (program.empty()) co_return Error(Code::Unavailable, "there is no program to try it with");
  const std::string file = (paths.sdk / "python/zygote.py").string();
  std::vector<std::string> arguments = {program, "-r", file};
  const Result<> tried = co_await runtime::tryCell(cells, cleanCommand(std::move(arguments)));
  co_return tried;
}

Interpreters::Interpreters(runtime::Cells& cells, Paths paths, runtime::Network network)
    : cells_(cells), paths_(std::move(paths)), network_(network) {
  using runtime::Home;
  using runtime::Network;
  const std::array<Home, 3> homes = {Home{}, Home{&cells, Network::None},
                                     Home{&cells, Network::Hosts}};
  if (!paths_.python.empty()) {
    const auto zygote = std::make_shared<runtime::Zygote>(
        cells.keeper(), cleanCommand({paths_.python, (paths_.sdk / "python/zygote.py").string()}));
    for (std::size_t i = 0; i < homes.size(); ++i) {
      python_[i] = std::make_shared<runtime::ZygoteLauncher>(zygote, homes[i]);
    }
  }
  if (!paths_.node.empty()) {
    for (std::size_t i = 0; i < homes.size(); ++i) {
      runtime::Command command =
          cleanCommand({paths_.node, (paths_.sdk / "node/instance.js").string()});
      if (homes[i].isCell()) moveHome(command);
      node_[i] = std::make_shared<runtime::WarmLauncher>(cells.keeper(), std::move(command),
                                                         homes[i], kSpareNodes);
    }
  }
}

Residence Interpreters::residenceOf(const function::Definition& definition,
                                    const CodeOnHost& code) const {
  Residence residence;
  residence.directory = code.directory;
  residence.dependencies = code.dependencies;
  if (definition.isolation != function::Isolation::Sandbox) return residence;
  residence.home.cells = &cells_;
  if (definition.network) residence.home.network = network_;
  residence.directory = runtime::kCodePlace;
  residence.mounts.push_back({code.directory.lexically_relative(cells_.code()).string(),
                              std::string(runtime::kCodePlace)});
  if (code.dependencies.empty()) return residence;
  // All of them: a link beside the code leads there, and places are made when the cell is.
  const fs::path place(runtime::kDependenciesPlace);
  residence.dependencies = place / code.dependencies.filename();
  residence.mounts.push_back(
      {code.dependencies.parent_path().lexically_relative(cells_.code()).string(), place.string()});
  return residence;
}

Result<std::shared_ptr<runtime::Launcher>> Interpreters::launcherOf(
    const function::Definition& definition, const CodeOnHost& code) {
  using function::Runtime;
  Residence residence = residenceOf(definition, code);
  std::shared_ptr<runtime::Launcher> launcher;
  if (definition.runtime == Runtime::Python || definition.runtime == Runtime::Node) {
    const bool is_python = definition.runtime == Runtime::Python;
    const bool has_network = residence.home.network == runtime::Network::Hosts;
    const std::size_t which = !residence.home.isCell() ? 0 : has_network ? 2 : 1;
    launcher = (is_python ? python_ : node_).at(which);
    if (!launcher) {
      return Error(Code::Unprocessable, fmt::format("there is no {} on this server; install {}",
                                                    function::runtimeName(definition.runtime),
                                                    is_python ? "python3" : "nodejs"));
    }
  } else {
    NIMBUS_TRY(launcher, programLauncher(definition, code.directory, residence));
    residence.mounts.clear();  // it has them
  }
  return std::shared_ptr<runtime::Launcher>(std::make_shared<runtime::FunctionLauncher>(
      std::move(launcher), memoryLimitOf(definition), std::move(residence.mounts)));
}

Result<std::shared_ptr<runtime::Launcher>> Interpreters::programLauncher(
    const function::Definition& definition, const fs::path& directory,
    const Residence& residence) const {
  fs::path program = directory / definition.handler;
  if (definition.runtime == function::Runtime::Native) {
    NIMBUS_TRY(const NativeCode code, nativeCodeOf(definition, directory));
    program = code.program;
  }
  if (::access(program.c_str(), X_OK) != 0) {
    return Error(Code::Unprocessable,
                 fmt::format("\"{}\" is no program: there is no such file, or it is not executable",
                             definition.handler))
        .with("file", definition.handler);
  }
  std::vector<runtime::CodeMount> mounts = residence.mounts;
  if (residence.home.isCell()) {
    const fs::path within = program.lexically_relative(directory);
    const bool is_built = *within.begin() == "..";
    if (is_built) {
      const fs::path built = program.parent_path().lexically_relative(cells_.code());
      mounts.push_back({built.string(), std::string(runtime::kNativePlace)});
      program = fs::path(runtime::kNativePlace) / program.filename();
    } else {
      program = residence.directory / within;
    }
  }
  runtime::Command command = cleanCommand({program.string()});
  if (residence.home.isCell()) moveHome(command);
  for (const auto& [name, value] : definition.env)
    command.environment.push_back(name + "=" + value);
  command.directory = residence.directory.string();
  return std::shared_ptr<runtime::Launcher>(std::make_shared<runtime::ProgramLauncher>(
      cells_.keeper(), std::move(command), residence.home, std::move(mounts)));
}

}  // namespace nimbus::deployment
