#include "deployment/dependencies.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "deployment/tool.h"
#include "function/bundle.h"

#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;
using function::Runtime;

constexpr std::string_view kModules = "node_modules";
constexpr std::string_view kNpmCache = ".npm";
constexpr std::size_t kHashLetters = 64;
constexpr std::uintmax_t kMaxBytes = 1024UL * 1024 * 1024;

// Where installers look for packages is the operator's to say, in files or in variables.
constexpr std::array<std::string_view, 10> kForInstallers = {
    "PIP_",        "npm_config_",  "NPM_CONFIG_", "http_proxy=", "https_proxy=",
    "HTTP_PROXY=", "HTTPS_PROXY=", "no_proxy=",   "NO_PROXY=",   "SSL_CERT_FILE=",
};

Error dependencyError(std::string_view file, std::string_view what) {
  return Error(Code::Unprocessable, fmt::format("DependencyError: {}: {}", file, what))
      .with("error_type", std::string("DependencyError"))
      .with("file", std::string(file));
}

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

fs::path markOf(const fs::path& code) {
  return code.parent_path() / (code.filename().string() + ".dependencies");
}

// Makes `link` point there, in one step. As seen from the link: so it also holds where the folder
// of all code is seen elsewhere.
Result<> pointTo(const fs::path& there, const fs::path& link) {
  std::error_code error;
  const fs::path target = there.lexically_relative(link.parent_path());
  if (fs::read_symlink(link, error) == target) return {};
  const fs::path fresh = link.string() + fmt::format(".{}", ::getpid());
  fs::remove(fresh, error);
  fs::create_directory_symlink(target, fresh, error);
  if (!error) fs::rename(fresh, link, error);
  if (error) return fileError("linking", link, error.value());
  return {};
}

// What npm is to see: never settings that come with the code.
bool isForNpm(const fs::path& path) {
  const std::string name = path.filename().string();
  return name != kModules && name != ".npmrc";
}

Result<> copyFiles(const Requirements& needed, const fs::path& code, const fs::path& draft) {
  std::error_code error;
  if (!needed.needs_code) {
    for (const std::string& file : needed.files) {
      fs::copy_file(code / file, draft / file, error);
      if (error) return fileError("copying", code / file, error.value());
    }
    return {};
  }
  for (auto place = fs::recursive_directory_iterator(code, error);
       !error && place != fs::recursive_directory_iterator(); place.increment(error)) {
    if (!isForNpm(place->path())) {
      place.disable_recursion_pending();
      continue;
    }
    const fs::path to = draft / place->path().lexically_relative(code);
    if (place->is_directory()) {
      fs::create_directory(to, error);
    } else {
      fs::copy_file(place->path(), to, error);
    }
    if (error) break;
  }
  if (error) return fileError("copying", code, error.value());
  return {};
}

// npm looks up what is for development, too, even where it is told to leave it out.
Result<> leaveOutDevelopment(const fs::path& package) {
  const std::string text = contentOf(package);
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(text));
  std::string kept = "{";
  for (const RawMember& member : members) {
    if (member.name == "devDependencies") continue;
    if (kept.size() > 1) kept += ',';
    appendJsonString(kept, member.name);
    kept += ':';
    kept += member.value;
  }
  kept += '}';
  std::ofstream file(package);
  file << kept;
  file.close();
  if (!file) return fileError("writing", package, errno);
  return {};
}

// Lets everyone read what was installed, whatever our umask is: an instance may run as another
// user. Returns how many bytes there are. Others have the thread now and then.
Task<std::uintmax_t> openToAll(fs::path directory) {
  constexpr std::size_t kAtOnce = 200;
  std::size_t seen = 0;
  constexpr fs::perms kRead = fs::perms::group_read | fs::perms::others_read;
  constexpr fs::perms kEnter = kRead | fs::perms::group_exec | fs::perms::others_exec;
  std::uintmax_t bytes = 0;
  std::error_code ignored;
  fs::permissions(directory, kEnter, fs::perm_options::add, ignored);
  for (auto place = fs::recursive_directory_iterator(directory, ignored);
       !ignored && place != fs::recursive_directory_iterator(); place.increment(ignored)) {
    if (++seen % kAtOnce == 0) co_await boost::asio::post(boost::asio::use_awaitable);
    std::error_code failed;
    if (place->is_symlink(failed)) continue;
    const bool is_file = place->is_regular_file(failed);
    if (is_file) bytes += place->file_size(failed);
    fs::permissions(place->path(), is_file ? kRead : kEnter, fs::perm_options::add, failed);
  }
  co_return bytes;
}

runtime::Command installerCommand(std::vector<std::string> arguments, const fs::path& directory) {
  runtime::Command command = cleanCommand(std::move(arguments));
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view text = *variable;
    const bool is_wanted =
        std::any_of(kForInstallers.begin(), kForInstallers.end(),
                    [&](std::string_view beginning) { return text.starts_with(beginning); });
    if (is_wanted) command.environment.emplace_back(text);
  }
  command.directory = directory.string();
  return command;
}

bool isHash(std::string_view name) {
  return name.size() == kHashLetters &&
         name.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

}  // namespace

Error installError(std::string_view output, const std::string& file) {
  if (output.find("No module named pip") != output.npos) {
    return dependencyError(file, "there is no pip on this server; install python3-pip");
  }
  // pip: "ERROR: what"; npm: "npm ERR! code E404", "npm ERR! 404 what".
  std::string said;
  std::string_view rest = output;
  while (!rest.empty() && said.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    for (const std::string_view mark : {"ERROR: ", "npm ERR! ", "npm error "}) {
      if (!line.starts_with(mark)) continue;
      line.remove_prefix(mark.size());
      if (!line.starts_with("code ") && !line.empty()) said = line;
      break;
    }
  }
  if (said.empty()) {
    const std::size_t end = output.find_last_not_of('\n');
    const std::size_t begin = output.rfind('\n', end);
    if (end != output.npos) said = output.substr(begin + 1, end - begin);
  }
  return dependencyError(file, said).with("trace", std::string(output));
}

Dependencies::Dependencies(runtime::Keeper& keeper, Paths programs, Options options)
    : keeper_(keeper),
      programs_(std::move(programs)),
      options_(std::move(options)),
      next_sweep_(fs::file_time_type::clock::now()) {}

fs::path Dependencies::of(const fs::path& code) const {
  std::error_code none;
  const fs::path target = fs::read_symlink(markOf(code), none);
  return none ? fs::path() : (code.parent_path() / target).lexically_normal();
}

Result<std::string> Dependencies::keyOf(Runtime runtime, const Requirements& needed,
                                        const fs::path& code) const {
  std::error_code error;
  const fs::path program = runtime == Runtime::Python ? programs_.python : programs_.node;
  function::Bundle key;
  const auto add = [&](std::string_view name, std::string bytes) {
    return key.add(name, std::move(bytes), function::Bundle::Mode::Plain);
  };
  NIMBUS_CHECK(add("interpreter", fs::canonical(program, error).string()));
  for (const std::string& file : needed.files) {
    NIMBUS_CHECK(add("files/" + file, contentOf(code / file)));
  }
  // The folder of code is named by its hash.
  if (needed.needs_code) NIMBUS_CHECK(add("code", code.filename().string()));
  return key.hash();
}

Task<Result<>> Dependencies::provide(Runtime runtime, fs::path code, Progress progress) {
  NIMBUS_CO_TRY(const std::optional<Requirements> needed, requirementsOf(runtime, code));
  if (!needed) co_return Result<>();
  NIMBUS_CO_TRY(const std::string key, keyOf(runtime, *needed, code));
  const fs::path target = options_.directory / key;
  std::error_code ignored;
  if (!fs::exists(target, ignored)) {
    const function::Turns::Turn turn = co_await turns_.take();
    if (!fs::exists(target, ignored)) {  // nobody has wanted the same meanwhile
      NIMBUS_CO_CHECK(co_await install(runtime, *needed, code, target, std::move(progress)));
    }
  }
  fs::last_write_time(target, fs::file_time_type::clock::now(), ignored);
  if (runtime == Runtime::Node) NIMBUS_CO_CHECK(pointTo(target / kModules, code / kModules));
  co_return pointTo(target, markOf(code));
}

Result<runtime::Command> Dependencies::commandFor(Runtime runtime, const Requirements& needed,
                                                  const fs::path& code,
                                                  const fs::path& draft) const {
  if (runtime == Runtime::Python) {
    std::vector<std::string> arguments = {
        programs_.python, "-I", "-m", "pip", "install", "--no-input", "--no-cache-dir",
        "--disable-pip-version-check", "--progress-bar", "off",
        // What comes as source would be built, and that runs whatever its author likes.
        "--only-binary", ":all:", "--target", draft.string(), "-r", (code / needed.file).string()};
    if (!options_.wheels.empty()) {
      arguments.insert(arguments.end(), {"--no-index", "--find-links", options_.wheels.string()});
    }
    return installerCommand(std::move(arguments), draft);
  }
  const std::string npm = findProgram({"npm"});
  if (npm.empty()) {
    return dependencyError(needed.file,
                           "there is no npm on this server; install npm, or bring "
                           "node_modules along with the code");
  }
  std::vector<std::string> arguments = {npm,
                                        needed.is_locked ? "ci" : "install",
                                        "--omit=dev",
                                        "--ignore-scripts",
                                        "--no-audit",
                                        "--no-fund",
                                        "--no-update-notifier",
                                        "--cache",
                                        (options_.directory / kNpmCache).string()};
  if (!needed.is_locked) arguments.emplace_back("--install-links");
  return installerCommand(std::move(arguments), draft);
}

Task<Result<>> Dependencies::install(Runtime runtime, Requirements needed, fs::path code,
                                     fs::path target, Progress progress) {
  NIMBUS_CO_TRY(const Draft draft, Draft::beside(target));
  if (runtime == Runtime::Node) {
    NIMBUS_CO_CHECK(copyFiles(needed, code, draft.path()));
    if (!needed.is_locked) NIMBUS_CO_CHECK(leaveOutDevelopment(draft.file(needed.file)));
  }
  NIMBUS_CO_TRY(runtime::Command command, commandFor(runtime, needed, code, draft.path()));
  log::info("installing what a function needs", {{"code", code.string()}, {"file", needed.file}});
  progress(fmt::format("installing {}\n", needed.file));
  ToolOptions installing;
  installing.time_limit = options_.time_limit;
  installing.hear = std::move(progress);
  NIMBUS_CO_TRY(ToolRun run, co_await runTool(keeper_, std::move(command), std::move(installing)));
  if (!run.status) {
    co_return dependencyError(
        needed.file, fmt::format("installing took more than {} ms", options_.time_limit.count()));
  }
  if (!run.succeeded()) {
    if (run.output.empty()) run.output = "the installer failed: " + run.status->text();
    co_return installError(run.output, needed.file);
  }
  if (co_await openToAll(draft.path()) > kMaxBytes) {
    co_return dependencyError(needed.file,
                              fmt::format("what it needs has more than {} MiB", kMaxBytes >> 20U));
  }
  std::error_code error;
  if (runtime == Runtime::Node) fs::create_directory(draft.file(kModules), error);
  // Functions run as others: they may enter what they know the name of, and see no other names.
  constexpr fs::perms kToEnter = fs::perms(0711);
  fs::permissions(options_.directory, kToEnter, error);
  fs::rename(draft.path(), target, error);
  // Another server may have been quicker.
  if (error && !fs::exists(target)) co_return fileError("moving to", target, error.value());
  co_return Result<>();
}

bool Dependencies::isSweepDue() {
  const std::lock_guard lock(sweep_mutex_);
  const auto now = fs::file_time_type::clock::now();
  if (now < next_sweep_) return false;
  next_sweep_ = now + options_.grace;
  return true;
}

Task<> Dependencies::sweep(std::set<std::string> used) {
  std::vector<std::string> unused;
  const auto now = fs::file_time_type::clock::now();
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(options_.directory, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name == kNpmCache || used.contains(name)) continue;
    // Drafts are there for as long as an installation may take; those left by a crash go, too.
    const auto stays = isHash(name) ? options_.grace : options_.grace + options_.time_limit;
    if (now - entry.last_write_time(ignored) < stays) continue;
    log::info("what no function needs any more is removed", {{"folder", entry.path().string()}});
    // First out of the way, in one step: nobody may find half of it.
    const fs::path gone = entry.path().string() + ".unused";
    std::error_code failed;
    fs::rename(entry.path(), gone, failed);
    if (!failed) unused.push_back(gone.string());
  }
  if (unused.empty()) co_return;
  // Not by this thread: there may be many files.
  unused.insert(unused.begin(), {"/bin/rm", "-rf", "--"});
  runtime::Command remove = cleanCommand(std::move(unused));
  ToolOptions removing;
  removing.time_limit = options_.time_limit;
  const Result<ToolRun> run = co_await runTool(keeper_, std::move(remove), std::move(removing));
  if (!run || !run->succeeded()) log::warn("what no function needs could not be removed");
}

}  // namespace nimbus::deployment
