#include "cluster/member.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <iterator>

namespace nimbus::cluster {

std::string Member::toJson() const {
  std::string json = R"({"id":)";
  appendJsonString(json, id);
  json += R"(,"address":)";
  appendJsonString(json, address);
  json += R"(,"url":)";
  appendJsonString(json, url);
  json += R"(,"version":)";
  appendJsonString(json, version);
  json += R"(,"machine":)";
  appendJsonString(json, process.machine);
  fmt::format_to(std::back_inserter(json),
                 R"(,"pid":{},"process_start":{},"started_at":{},"leaving":{},"sessions":{},)"
                 R"("instances":{}}})",
                 process.pid, process.start, started_at.time_since_epoch().count(), is_leaving,
                 sessions, instances);
  return json;
}

Result<Member> Member::fromJson(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto text = [&](std::string_view name) {
    return std::string(root.string(name).value_or(""));
  };
  const auto number = [&](std::string_view name) { return root.integer(name).value_or(0); };
  Member member;
  member.id = text("id");
  member.address = text("address");
  member.url = text("url");
  member.version = text("version");
  member.started_at = Timestamp(Millis(number("started_at")));
  member.process.machine = text("machine");
  member.process.pid = number("pid");
  member.process.start = static_cast<std::uint64_t>(number("process_start"));
  member.is_leaving = root.boolean("leaving").value_or(false);
  member.sessions = static_cast<std::uint64_t>(number("sessions"));
  member.instances = static_cast<std::uint64_t>(number("instances"));
  if (member.id.empty()) return Error(Code::Internal, "a node in the store has no id");
  return member;
}

std::string_view idOfKey(std::string_view key) {
  return key.substr(0, key.rfind('~'));
}

}  // namespace nimbus::cluster
