#include "function/deployed.h"

#include "base/json.h"

#include <fmt/format.h>

namespace nimbus::function {
namespace {

std::int64_t inMillis(Timestamp time) {
  return time.time_since_epoch().count();
}

Error damaged(const FunctionId& id, std::string_view why) {
  return {Code::Internal,
          fmt::format("what is stored of function {} is damaged: {}", id.text(), why)};
}

}  // namespace

std::string encode(const Deployed& deployed) {
  const Definition& definition = deployed.definition;
  return fmt::format(
      R"({{"settings":{},"version":{},"last_version":{},"code_hash":"{}","incarnation":"{}",)"
      R"("created_at":{},"updated_at":{}}})",
      settingsJson(definition), definition.version, deployed.last_version, definition.code_hash,
      deployed.incarnation, inMillis(definition.created_at), inMillis(definition.updated_at));
}

Result<Deployed> decode(const FunctionId& id, std::string_view text, const Defaults& defaults) {
  const auto root = parseJson(text);
  if (!root) return damaged(id, root.error().message());
  const auto settings = root->member("settings");
  const auto version = root->integer("version");
  const auto last_version = root->integer("last_version");
  const auto code_hash = root->string("code_hash");
  const auto incarnation = root->string("incarnation");
  const auto created_at = root->integer("created_at");
  const auto updated_at = root->integer("updated_at");
  if (!settings || !version || !last_version || !code_hash || !incarnation || !created_at ||
      !updated_at) {
    return damaged(id, "a field is missing");
  }

  auto definition = readSettings(id, *settings, defaults);
  if (!definition) return damaged(id, definition.error().message());
  Deployed deployed(*std::move(definition));
  deployed.definition.version = static_cast<std::uint64_t>(*version);
  deployed.definition.code_hash = *code_hash;
  deployed.definition.created_at = Timestamp(Millis(*created_at));
  deployed.definition.updated_at = Timestamp(Millis(*updated_at));
  deployed.last_version = static_cast<std::uint64_t>(*last_version);
  deployed.incarnation = *incarnation;
  return deployed;
}

}  // namespace nimbus::function
