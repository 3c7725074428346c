#include "session/session_record.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <iterator>

namespace nimbus::session {

std::string SessionRecord::toJson() const {
  std::string json;
  fmt::format_to(std::back_inserter(json),
                 R"({{"seq":{},"reserved":{},"created_at":{},"last_access":{},"timeout_ms":{})",
                 seq, reserved, created_at.time_since_epoch().count(),
                 last_access.time_since_epoch().count(), timeout ? timeout->count() : -1);
  if (!instance.empty()) {
    json += R"(,"instance":)";
    appendJsonString(json, instance);
  }
  json += '}';
  return json;
}

Result<SessionRecord> SessionRecord::fromJson(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto number = [&](std::string_view name) { return root.integer(name).value_or(0); };
  SessionRecord record;
  record.seq = static_cast<std::uint64_t>(number("seq"));
  record.reserved = static_cast<std::uint64_t>(number("reserved"));
  record.created_at = Timestamp(Millis(number("created_at")));
  record.last_access = Timestamp(Millis(number("last_access")));
  if (const auto timeout = root.integer("timeout_ms"); timeout && *timeout >= 0) {
    record.timeout = Millis(*timeout);
  }
  record.instance = std::string(root.string("instance").value_or(""));
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
