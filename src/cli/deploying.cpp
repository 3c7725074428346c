#include "cli/deploying.h"

#include "base/json.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <system_error>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;

// A compiler may have to do its work first.
constexpr Millis kPatience = std::chrono::minutes(10);

constexpr std::array<std::string_view, 6> kSigns = {"function.yaml", "function.json", "main.py",
                                                    "main.js",       "main.mjs",      "main.cpp"};

bool isFunction(const fs::path& folder) {
  std::error_code ignored;
  return std::any_of(kSigns.begin(), kSigns.end(), [&](std::string_view sign) {
    return fs::is_regular_file(folder / sign, ignored);
  });
}

std::string targetOf(const std::string& name) {
  return "/api/v1/functions/" + client::encoded(name);
}

Error refused(const client::Answer& answer) {
  const auto problem = parseJson(answer.body);
  const std::string detail(problem ? problem->string("detail").value_or("") : "");
  return {Code::Unprocessable,
          detail.empty() ? fmt::format("the server answered {}", answer.status) : detail};
}

}  // namespace

std::vector<FunctionFolder> functionsIn(const fs::path& directory) {
  std::error_code ignored;
  const fs::path whole = fs::weakly_canonical(fs::absolute(directory, ignored), ignored);
  if (isFunction(whole)) return {{whole.filename().string(), whole}};
  std::vector<FunctionFolder> folders;
  for (const fs::directory_entry& entry : fs::directory_iterator(whole, ignored)) {
    const std::string name = entry.path().filename().string();
    if (!name.starts_with('.') && entry.is_directory(ignored) && isFunction(entry.path())) {
      folders.push_back({name, entry.path()});
    }
  }
  std::sort(folders.begin(), folders.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  return folders;
}

Result<std::int64_t> deployedVersion(client::Client& client, const std::string& name) {
  client::Request request;
  request.target = targetOf(name);
  NIMBUS_TRY(const client::Answer answer, client.send(request));
  if (answer.status == 404) return 0;
  if (!answer.isOk()) return refused(answer);
  NIMBUS_TRY(const JsonValue function, parseJson(answer.body));
  return function.integer("version").value_or(0);
}

Result<Deployed> deployFolder(client::Client& client, const Backend& backend,
                              const FunctionFolder& folder, std::int64_t before) {
  client::Request request;
  request.method = "PUT";
  request.target = targetOf(folder.name);
  request.timeout = kPatience;
  NIMBUS_TRY(request.body, backend.folderBody(folder.path));
  NIMBUS_TRY(client::Answer answer, client.send(request));
  if (!answer.isOk()) return refused(answer);
  NIMBUS_TRY(const JsonValue function, parseJson(answer.body));
  Deployed deployed;
  deployed.version = function.integer("version").value_or(0);
  deployed.runtime = function.string("runtime").value_or("");
  if (answer.status == 201) {
    deployed.change = Deployed::Change::Created;
  } else if (deployed.version != before) {
    deployed.change = Deployed::Change::Updated;
  }
  deployed.resource = std::move(answer.body);
  return deployed;
}

}  // namespace nimbus::cli
