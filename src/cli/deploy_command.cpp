#include "base/json_text.h"
#include "cli/backend.h"
#include "cli/commands.h"
#include "cli/deploying.h"
#include "cli/progress.h"
#include "cli/remote.h"

#include <fmt/format.h>

#include <chrono>
#include <ostream>

namespace nimbus::cli {
namespace {

std::string sentence(const FunctionFolder& folder, const Deployed& deployed, Millis took) {
  switch (deployed.change) {
    case Deployed::Change::Created:
      return fmt::format("created {} ({}) in {} ms", folder.name, deployed.runtime, took.count());
    case Deployed::Change::Updated:
      return fmt::format("updated {} to version {} ({}) in {} ms", folder.name, deployed.version,
                         deployed.runtime, took.count());
    case Deployed::Change::None:
      break;
  }
  return fmt::format("{} has this code already (version {})", folder.name, deployed.version);
}

Exit deploy(Remote& remote, const Arguments& arguments) {
  Context& context = remote.context();
  const std::string directory = *arguments.one("DIR");
  std::vector<FunctionFolder> folders = functionsIn(directory);
  if (folders.empty()) {
    context.error(fmt::format("there is no function in \"{}\"", printable(directory)),
                  "a function is a folder with main.py, main.js, main.mjs, main.cpp or a "
                  "function.yaml; `nimbus new` makes one");
    return Exit::Usage;
  }
  if (const auto name = arguments.one("--name")) {
    if (folders.size() > 1) {
      context.error("--name is for one function, and there are several in that directory");
      return Exit::Usage;
    }
    folders.front().name = *name;
  }
  std::string resources;
  bool failed = false;
  for (std::size_t i = 0; i < folders.size(); ++i) {
    const FunctionFolder& folder = folders[i];
    const auto begin = std::chrono::steady_clock::now();
    Result<Deployed> done = [&]() -> Result<Deployed> {
      Progress progress(context, fmt::format("deploying {}", folder.name), folders.size());
      for (std::size_t before = 0; before < i; ++before) progress.step();
      NIMBUS_TRY(const std::int64_t before, deployedVersion(remote.client(), folder.name));
      return deployFolder(remote.client(), context.backend, folder, before);
    }();
    if (!done) {
      if (done.error().code() == Code::Unavailable) {
        remote.explain(done.error());
        return Exit::Failed;
      }
      context.error(fmt::format("{}: {}", folder.name, done.error().message()),
                    "what was deployed before, if anything was, is still there");
      failed = true;
      continue;
    }
    const auto took = std::chrono::duration_cast<Millis>(std::chrono::steady_clock::now() - begin);
    if (!resources.empty()) resources += ',';
    resources += done->resource;
    if (!remote.wantsJson()) context.out << sentence(folder, *done, took) << '\n' << std::flush;
  }
  if (remote.wantsJson()) context.out << R"({"items":[)" << resources << "]}\n";
  return failed ? Exit::Failed : Exit::Ok;
}

}  // namespace

std::vector<Command> deployCommands() {
  Command command =
      remoteCommand("deploy", "Deploy the function in a folder, or every function in it", deploy,
                    {{"--name", "Its id; else that of the folder", Option::Takes::OneValue, "ID"}});
  command.details =
      "A function is a folder with main.py, main.js, main.mjs or main.cpp, or with a "
      "function.yaml\n"
      "that says more; docs/functions.md has the rest. The same code makes no new version, and "
      "code\n"
      "that does not load changes nothing.";
  command.positionals = {{"DIR", "The folder"}};
  command.examples = {{"nimbus deploy counter", ""},
                      {"nimbus deploy examples/functions", "all of them"},
                      {"nimbus deploy . --name counter", ""}};
  return {command};
}

}  // namespace nimbus::cli
