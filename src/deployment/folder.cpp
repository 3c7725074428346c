#include "deployment/folder.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/log.h"
#include "base/yaml.h"
#include "function/bundle.h"
#include "function/pack.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kYaml = "function.yaml";
constexpr std::string_view kJson = "function.json";

constexpr std::array<std::string_view, 4> kNotCode = {kYaml, kJson, "README.md", "tests"};
constexpr std::array<std::string_view, 4> kNeverCode = {"node_modules", ".git", "__pycache__",
                                                        ".nimbus"};

constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kMainFiles = {{
    {"main.py", "python"},
    {"main.js", "node"},
    {"main.mjs", "node"},
    {"main.cpp", "native"},
}};

template <typename List>
bool contains(const List& list, const std::string& name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

Error wrong(std::string_view file, std::string_view what) {
  return {Code::InvalidArgument, fmt::format("{}: {}", file, what)};
}

Result<std::string> readFile(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (!file.good() && !file.eof()) {
    return Error(Code::InvalidArgument, fmt::format("{} cannot be read", path.string()));
  }
  return bytes;
}

// ---- Settings

// What is not quoted and is a number, true, false or null in JSON is that here too.
bool isPlainJson(const YamlNode& node) {
  if (node.quoted) return false;
  const Result<JsonValue> value = parseJson(node.text);
  return value && value->kind() != JsonValue::Kind::String && !value->isArray() &&
         !value->isObject();
}

Result<> appendJson(std::string& out, const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::Null:
      out += "null";
      return {};
    case YamlNode::Kind::Scalar:
      if (isPlainJson(node)) {
        out += node.text;
      } else {
        appendJsonString(out, node.text);
      }
      return {};
    case YamlNode::Kind::Sequence:
    case YamlNode::Kind::Mapping:
      break;
  }
  const bool is_mapping = node.kind == YamlNode::Kind::Mapping;
  std::set<std::string_view> seen;
  out += is_mapping ? '{' : '[';
  for (const YamlNode::Entry& entry : node.items) {
    if (&entry != &node.items.front()) out += ',';
    if (is_mapping) {
      if (!seen.insert(entry.key).second) {
        return wrong(
            kYaml, fmt::format("line {}: \"{}\" is there twice", entry.line, printable(entry.key)));
      }
      appendJsonString(out, entry.key);
      out += ':';
    }
    NIMBUS_CHECK(appendJson(out, entry.value));
  }
  out += is_mapping ? '}' : ']';
  return {};
}

Result<std::string> settingsFromYaml(const std::string& text) {
  const Result<YamlNode> node = parseYaml(text);
  if (!node) {
    return wrong(kYaml,
                 fmt::format("line {}: {}", node.error().field("line", 1), node.error().message()));
  }
  if (node->kind == YamlNode::Kind::Null) return std::string("{}");
  if (node->kind != YamlNode::Kind::Mapping) return wrong(kYaml, "it must hold names and values");
  std::string json;
  NIMBUS_CHECK(appendJson(json, *node));
  return json;
}

// The object in function.yaml or function.json; an empty one if there is neither.
Result<std::string> settingsOf(const fs::path& folder) {
  std::error_code ignored;
  const bool has_yaml = fs::exists(folder / kYaml, ignored);
  const bool has_json = fs::exists(folder / kJson, ignored);
  if (has_yaml && has_json) return wrong(kJson, "there is function.yaml too, and one must do");
  if (!has_yaml && !has_json) return std::string("{}");
  NIMBUS_TRY(std::string text, readFile(folder / (has_yaml ? kYaml : kJson)));
  return has_yaml ? settingsFromYaml(text) : Result<std::string>(std::move(text));
}

// ---- Code

Result<> addFile(function::Bundle& code, const fs::path& folder, const fs::path& file) {
  NIMBUS_TRY(std::string bytes, readFile(file));
  const bool runs = ::access(file.c_str(), X_OK) == 0;
  return code.add(file.lexically_relative(folder).generic_string(), std::move(bytes),
                  runs ? function::Bundle::Mode::Executable : function::Bundle::Mode::Plain);
}

Result<function::Bundle> codeOf(const fs::path& folder) {
  function::Bundle code;
  std::error_code failed;
  for (auto place = fs::recursive_directory_iterator(folder, failed);
       !failed && place != fs::recursive_directory_iterator(); place.increment(failed)) {
    const std::string name = place->path().filename().string();
    const bool left_out =
        contains(kNeverCode, name) || (place.depth() == 0 && contains(kNotCode, name));
    if (left_out) {
      place.disable_recursion_pending();
      continue;
    }
    std::error_code ignored;
    if (!place->is_regular_file(ignored)) continue;
    NIMBUS_CHECK(addFile(code, folder, place->path()));
  }
  if (failed) {
    return Error(Code::InvalidArgument, fmt::format("{}: {}", folder.string(), failed.message()));
  }
  if (code.files().empty()) return Error(Code::InvalidArgument, "there is no code in the folder");
  return code;
}

std::optional<std::string_view> runtimeOf(const function::Bundle& code) {
  for (const auto& [file, runtime] : kMainFiles) {
    if (code.files().contains(file)) return runtime;
  }
  return std::nullopt;
}

std::vector<fs::path> foldersIn(const fs::path& directory) {
  std::vector<fs::path> folders;
  std::error_code failed;
  for (auto place = fs::directory_iterator(directory, failed);
       !failed && place != fs::directory_iterator(); place.increment(failed)) {
    std::error_code ignored;
    const bool is_hidden = place->path().filename().string().starts_with('.');
    if (!is_hidden && place->is_directory(ignored)) folders.push_back(place->path());
  }
  if (failed) {
    log::error("the functions cannot be read",
               {{"directory", directory.string()}, {"error", failed.message()}});
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

std::string_view nameOf(function::Put::Change change) {
  switch (change) {
    case function::Put::Change::Created:
      return "created";
    case function::Put::Change::Updated:
      return "updated";
    case function::Put::Change::None:
      break;
  }
  return "none";
}

Task<Result<function::Put>> deployFolder(Deployments& deployments, fs::path folder) {
  NIMBUS_CO_TRY(FunctionId id, FunctionId::parse(folder.filename().string()));
  NIMBUS_CO_TRY(std::string body, bodyOfFolder(folder));
  co_return co_await deployments.put(std::move(id), std::move(body));
}

}  // namespace

Result<std::string> bodyOfFolder(const fs::path& folder) {
  NIMBUS_TRY(const std::string settings, settingsOf(folder));
  NIMBUS_TRY(const function::Bundle code, codeOf(folder));
  NIMBUS_TRY(const std::string packed, function::packBase64(code));
  const Result<std::vector<RawMember>> members = splitObject(settings);
  if (!members) return wrong(kJson, members.error().message());

  std::string body = R"({"archive_base64":")" + packed + '"';
  bool has_runtime = false;
  for (const RawMember& member : *members) {
    if (member.name == "files" || member.name == "archive_base64") {
      return Error(Code::InvalidArgument,
                   fmt::format("\"{}\" has no place beside the files themselves", member.name));
    }
    has_runtime |= member.name == "runtime";
    body += ',';
    appendJsonString(body, member.name);
    body += ':';
    body += member.value;
  }
  if (!has_runtime) {
    const auto runtime = runtimeOf(code);
    if (!runtime) {
      return Error(Code::InvalidArgument,
                   "there is no main.py, main.js, main.mjs or main.cpp, and no function.yaml that "
                   "says what else the runtime is");
    }
    body += fmt::format(R"(,"runtime":"{}")", *runtime);
  }
  body += '}';
  return body;
}

Task<> deployFolders(Deployments& deployments, fs::path directory) {
  for (const fs::path& folder : foldersIn(directory)) {
    const std::string name = folder.filename().string();
    const Result<function::Put> done = co_await deployFolder(deployments, folder);
    if (!done) {
      log::error(
          "a function could not be deployed",
          {{"function", name}, {"folder", folder.string()}, {"error", done.error().message()}});
      continue;
    }
    log::info("function deployed", {{"function", name},
                                    {"version", done->definition.version},
                                    {"change", nameOf(done->change)}});
  }
}

}  // namespace nimbus::deployment
