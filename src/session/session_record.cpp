#include "session/session_record.h"

#include "base/json.h"
#include "base/json_text.h"

namespace nimbus::session {

std::string SessionRecord::toJson() const {
  std::string json = R"({"reserved":)";
  appendNumber(json, reserved);
  json += R"(,"created_at":)";
  appendNumber(json, created_at.time_since_epoch().count());
  json += R"(,"last_access":)";
  appendNumber(json, last_access.time_since_epoch().count());
  json += R"(,"timeout_ms":)";
  appendNumber(json, timeout ? timeout->count() : -1);
  if (!instance.empty()) {
    json += R"(,"instance":)";
    appendJsonString(json, instance);
  }
  if (!owner.empty()) {
    json += R"(,"owner":)";
    appendJsonString(json, owner);
  }
  if (has_work) json += R"(,"has_work":true)";
  if (is_paused) json += R"(,"paused":true)";
  if (is_draining) json += R"(,"draining":true)";
  json += '}';
  return json;
}

Result<SessionRecord> SessionRecord::fromJson(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto number = [&](std::string_view name) { return root.integer(name).value_or(0); };
  SessionRecord record;
  record.reserved = static_cast<std::uint64_t>(number("reserved"));
  record.created_at = Timestamp(Millis(number("created_at")));
  record.last_access = Timestamp(Millis(number("last_access")));
  if (const auto timeout = root.integer("timeout_ms"); timeout && *timeout >= 0) {
    record.timeout = Millis(*timeout);
  }
  record.instance = std::string(root.string("instance").value_or(""));
  record.owner = std::string(root.string("owner").value_or(""));
  record.has_work = root.boolean("has_work").value_or(false);
  record.is_paused = root.boolean("paused").value_or(false);
  record.is_draining = root.boolean("draining").value_or(false);
  return record;
}

store::Partition sessionPartition(std::string_view function_id, std::string_view session_key) {
  return {"session", {function_id, session_key}};
}

store::Partition functionStatePartition(std::string_view function_id) {
  return {"function-state", {function_id}};
}

std::string sessionDirectory(std::string_view function_id) {
  return "sessions:" + std::string(function_id);
}

}  // namespace nimbus::session
