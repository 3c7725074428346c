#include "function/version_info.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "function/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace nimbus::function {
namespace {

// What both forms begin with.
std::string common(const VersionInfo& version) {
  std::string handler;
  appendJsonString(handler, version.handler);
  return fmt::format(R"("version":{},"code_hash":"{}","runtime":"{}","handler":{})",
                     version.version, version.code_hash, runtimeName(version.runtime), handler);
}

}  // namespace

std::string toJson(const VersionInfo& version) {
  return fmt::format(R"({{{},"created_at":"{}","current":{},"code_available":{}}})",
                     common(version), timeText(version.created_at), version.current,
                     version.code_available);
}

std::string encode(const VersionInfo& version) {
  return fmt::format(R"({{{},"created_at":{},"pieces":{}}})", common(version),
                     version.created_at.time_since_epoch().count(), version.pieces);
}

Result<VersionInfo> decodeVersion(std::string_view text) {
  const auto root = parseJson(text);
  if (!root) return Error(Code::Internal, "what is stored of a version is damaged");
  const auto number = root->integer("version");
  const auto code_hash = root->string("code_hash");
  const auto runtime = root->string("runtime");
  const auto handler = root->string("handler");
  const auto created_at = root->integer("created_at");
  const auto pieces = root->integer("pieces");
  const auto* const known =
      runtime ? std::find(kRuntimes.begin(), kRuntimes.end(), *runtime) : kRuntimes.end();
  if (!number || !code_hash || known == kRuntimes.end() || !handler || !created_at || !pieces) {
    return Error(Code::Internal, "what is stored of a version is damaged");
  }
  VersionInfo version;
  version.version = static_cast<std::uint64_t>(*number);
  version.code_hash = *code_hash;
  version.runtime = static_cast<Runtime>(std::distance(kRuntimes.begin(), known));
  version.handler = *handler;
  version.created_at = Timestamp(Millis(*created_at));
  version.pieces = static_cast<std::uint64_t>(*pieces);
  return version;
}

}  // namespace nimbus::function
