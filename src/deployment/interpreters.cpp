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

Interpreters::Interpreters(runtime::Keeper& keeper, Paths paths)
    : keeper_(keeper), paths_(std::move(paths)) {
  if (!paths_.python.empty()) {
    python_ = std::make_shared<runtime::ZygoteLauncher>(
        keeper, cleanCommand({paths_.python, (paths_.sdk / "python/zygote.py").string()}));
  }
  if (!paths_.node.empty()) {
    node_ = std::make_shared<runtime::WarmLauncher>(
        keeper, cleanCommand({paths_.node, (paths_.sdk / "node/instance.js").string()}),
        kSpareNodes);
  }
}

Result<std::shared_ptr<runtime::Launcher>> Interpreters::launcherOf(
    const function::Definition& definition, const fs::path& directory) {
  using function::Runtime;
  if (definition.runtime == Runtime::Python || definition.runtime == Runtime::Node) {
    const bool is_python = definition.runtime == Runtime::Python;
    const auto& launcher = is_python ? python_ : node_;
    if (launcher) return launcher;
    return Error(Code::Unprocessable, fmt::format("there is no {} on this server; install {}",
                                                  function::runtimeName(definition.runtime),
                                                  is_python ? "python3" : "nodejs"));
  }
  fs::path program = directory / definition.handler;
  if (definition.runtime == Runtime::Native) {
    NIMBUS_TRY(const NativeCode code, nativeCodeOf(definition, directory));
    program = code.program;
  }
  if (::access(program.c_str(), X_OK) != 0) {
    return Error(Code::Unprocessable,
                 fmt::format("\"{}\" is no program: there is no such file, or it is not executable",
                             definition.handler))
        .with("file", definition.handler);
  }
  runtime::Command command = cleanCommand({program.string()});
  for (const auto& [name, value] : definition.env)
    command.environment.push_back(name + "=" + value);
  command.directory = directory.string();
  return std::shared_ptr<runtime::Launcher>(
      std::make_shared<runtime::ProgramLauncher>(keeper_, std::move(command)));
}

}  // namespace nimbus::deployment
