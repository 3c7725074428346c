#include "deployment/requirements.h"

#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPython = "requirements.txt";
constexpr std::string_view kNode = "package.json";
constexpr std::array<std::string_view, 2> kLocks = {"npm-shrinkwrap.json", "package-lock.json"};
constexpr std::array<std::string_view, 3> kInstalled = {"dependencies", "optionalDependencies",
                                                        "peerDependencies"};

std::string contentOf(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

bool isFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

Error refused(std::string_view file, std::string_view what) {
  return Error(Code::Unprocessable, fmt::format("{}: {}", file, what))
      .with("error_type", std::string("DependencyError"))
      .with("file", std::string(file));
}

std::string_view trimmed(std::string_view text) {
  const auto is_space = [](char c) { return std::isspace(static_cast<unsigned char>(c)) != 0; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

// ---- requirements.txt

// A package by its name, perhaps with versions, hashes and conditions. Options change what pip
// does, paths and addresses where it looks, and a $ shows it variables of the server's.
bool isPackage(std::string_view line) {
  if (std::isalnum(static_cast<unsigned char>(line.front())) == 0) return false;
  if (line.find_first_of("/\\@$") != line.npos) return false;
  for (std::size_t at = line.find(" -"); at != line.npos; at = line.find(" -", at + 1)) {
    if (!line.substr(at + 1).starts_with("--hash=")) return false;
  }
  return true;
}

Result<std::optional<Requirements>> pythonRequirements(const fs::path& directory) {
  if (!isFile(directory / kPython)) return std::nullopt;
  const std::string text = contentOf(directory / kPython);
  bool needs_any = false;
  std::string line;
  std::int64_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string_view part = trimmed(std::string_view(text).substr(begin, end - begin));
    begin = end + 1;
    ++number;
    if (const std::size_t comment = part.find('#');
        comment == 0 || (comment != part.npos && part[comment - 1] == ' ')) {
      part = trimmed(part.substr(0, comment));
    }
    const bool goes_on = part.ends_with('\\');
    if (goes_on) part.remove_suffix(1);
    line += part;
    if (goes_on && begin < text.size()) continue;
    if (const std::string_view whole = trimmed(line); !whole.empty()) {
      if (!isPackage(whole)) {
        return refused(kPython,
                       fmt::format("line {}: a line names a package, as in requests==2.31.0; "
                                   "options, paths and URLs are refused",
                                   number))
            .with("line", number);
      }
      needs_any = true;
    }
    line.clear();
  }
  if (!needs_any) return std::nullopt;
  return Requirements{.file = std::string(kPython), .files = {std::string(kPython)}};
}

// ---- package.json

// The path in "file:../lib", "./lib" or "/lib"; nothing in names, versions and addresses.
std::optional<std::string_view> pathIn(std::string_view text) {
  if (text.starts_with("file:")) return text.substr(5);
  if (text.starts_with('.') || text.starts_with('/') || text.starts_with('~')) return text;
  return std::nullopt;
}

bool staysInside(std::string_view path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return !normal.empty() && normal.is_relative() && *normal.begin() != ".." &&
         !path.starts_with('~');
}

// Looks for packages that lie somewhere on this machine.
class Walk {
 public:
  explicit Walk(std::string_view file) : file_(file) {}

  Result<> packages(const JsonValue& listed) {
    for (const auto& [name, value] : listed.members()) {
      if (value.isObject()) {
        NIMBUS_CHECK(packages(value));
      } else if (const auto text = value.string()) {
        NIMBUS_CHECK(package(name, *text));
      }
    }
    return {};
  }

  // Of a lock file, wherever in it.
  Result<> locked(const JsonValue& value) {
    for (const auto& [name, member] : value.members()) {
      const bool is_place = name == "resolved" || name == "version";
      if (const auto text = member.string(); text && is_place) {
        const bool is_plain = name == "resolved" && text->find(':') == text->npos;
        NIMBUS_CHECK(package(name, is_plain ? fmt::format("file:{}", *text) : std::string(*text)));
      }
      if (member.isObject() && (name.starts_with("..") || name.starts_with('/'))) {
        return outside(name);
      }
      NIMBUS_CHECK(locked(member));
    }
    return {};
  }

  bool foundAny() const { return found_any_; }

 private:
  Result<> package(std::string_view name, std::string_view text) {
    if (text.starts_with("link:") || text.starts_with("portal:")) return outside(name);
    const auto path = pathIn(text);
    if (!path) return {};
    found_any_ = true;
    return staysInside(*path) ? Result<>() : outside(name);
  }

  Error outside(std::string_view name) const {
    return refused(file_, fmt::format("\"{}\" does not lie within the function's own files", name));
  }

  std::string_view file_;
  bool found_any_ = false;
};

Result<bool> needsCode(const fs::path& directory, std::string_view lock) {
  const std::string text = contentOf(directory / lock);
  const Result<JsonValue> parsed = parseJson(text);
  if (!parsed) return refused(lock, parsed.error().message());
  Walk walk(lock);
  NIMBUS_CHECK(walk.locked(*parsed));
  return walk.foundAny();
}

Result<std::optional<Requirements>> nodeRequirements(const fs::path& directory) {
  std::error_code ignored;
  const auto modules = fs::symlink_status(directory / "node_modules", ignored);
  const bool brings_them = fs::is_directory(modules);
  if (brings_them || !isFile(directory / kNode)) return std::nullopt;

  const std::string text = contentOf(directory / kNode);
  const Result<JsonValue> package = parseJson(text);
  if (!package) return refused(kNode, package.error().message());
  if (package->member("workspaces")) return refused(kNode, "workspaces are refused");
  Walk walk(kNode);
  bool needs_any = false;
  for (const std::string_view kind : kInstalled) {
    const auto listed = package->member(kind);
    if (!listed) continue;
    needs_any |= !listed->members().empty();
    NIMBUS_CHECK(walk.packages(*listed));
  }
  if (const auto overrides = package->member("overrides")) NIMBUS_CHECK(walk.packages(*overrides));
  if (!needs_any) return std::nullopt;

  Requirements needed{.file = std::string(kNode), .files = {std::string(kNode)}};
  needed.needs_code = walk.foundAny();
  for (const std::string_view lock : kLocks) {
    if (!isFile(directory / lock)) continue;
    NIMBUS_TRY(const bool locks_code, needsCode(directory, lock));
    needed.needs_code |= locks_code;
    needed.is_locked = true;
    needed.files.emplace_back(lock);
  }
  return needed;
}

}  // namespace

Result<std::optional<Requirements>> requirementsOf(function::Runtime runtime,
                                                   const fs::path& directory) {
  if (runtime == function::Runtime::Python) return pythonRequirements(directory);
  if (runtime == function::Runtime::Node) return nodeRequirements(directory);
  return std::nullopt;
}

}  // namespace nimbus::deployment
