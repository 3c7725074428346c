#include "session/invocation_record.h"

#include "base/json.h"
#include "base/json_text.h"
#include "session/session_record.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <functional>
#include <utility>
#include <vector>

namespace nimbus::session {
namespace {

using Status = InvocationRecord::Status;

constexpr std::array<std::string_view, 7> kStatusNames = {
    "queued", "running", "retrying", "succeeded", "failed", "cancelled", "parked"};

// Session keys have no control characters.
constexpr char kLaneMark = '\x01';
constexpr std::size_t kDueDigits = 15;

void appendTime(std::string& json, std::string_view name, const std::optional<Timestamp>& time) {
  if (!time) return;
  fmt::format_to(std::back_inserter(json), R"(,"{}":{})", name, time->time_since_epoch().count());
}

std::optional<Timestamp> timeOf(const JsonValue& root, std::string_view name) {
  const auto millis = root.integer(name);
  return millis ? std::optional(Timestamp(Millis(*millis))) : std::nullopt;
}

std::string errorJson(const Outcome& outcome) {
  const Error& error = *outcome.error;
  std::string json = R"({"code":)";
  appendJsonString(json, codeName(error.code()));
  json += R"(,"message":)";
  appendJsonString(json, error.message());
  if (outcome.failure) {
    json += R"(,"type":)";
    appendJsonString(json, outcome.failure->type);
    json += R"(,"trace":)";
    appendJsonString(json, outcome.failure->trace);
  }
  json += '}';
  return json;
}

}  // namespace

std::string_view statusName(Status status) {
  return kStatusNames[static_cast<std::size_t>(status)];
}

std::optional<Status> statusNamed(std::string_view name) {
  for (std::size_t i = 0; i < kStatusNames.size(); ++i) {
    if (kStatusNames[i] == name) return static_cast<Status>(i);
  }
  return std::nullopt;
}

bool InvocationRecord::isOver() const {
  return status != Status::Queued && status != Status::Running && status != Status::Retrying;
}

void InvocationRecord::note(const Outcome& outcome) {
  instance = outcome.instance;
  if (outcome.error) {
    error = errorJson(outcome);
    status_code = 0;
    body.clear();
  } else {
    error.clear();
    status_code = outcome.status_code;
    body = outcome.body;
  }
}

std::string InvocationRecord::toJson() const {
  std::string json = R"({"function_id":)";
  appendJsonString(json, function_id);
  if (session_key) {
    json += R"(,"session_key":)";
    appendJsonString(json, *session_key);
  }
  fmt::format_to(std::back_inserter(json), R"(,"status":"{}","attempts":{},"seq":{})",
                 statusName(status), attempts, seq);
  appendTime(json, "created_at", created_at);
  appendTime(json, "due_at", due_at);
  appendTime(json, "started_at", started_at);
  appendTime(json, "finished_at", finished_at);
  if (status_code != 0) {
    fmt::format_to(std::back_inserter(json), R"(,"status_code":{})", status_code);
  }
  if (!instance.empty()) {
    json += R"(,"instance":)";
    appendJsonString(json, instance);
  }
  if (!error.empty()) json.append(R"(,"error":)").append(error);
  if (!body.empty()) json.append(R"(,"body":)").append(body);
  json += '}';
  return json;
}

Result<InvocationRecord> InvocationRecord::fromJson(std::string_view json) {
  InvocationRecord record;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "body") record.body = std::string(member.value);
    if (member.name == "error") record.error = std::string(member.value);
  }
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto status = statusNamed(root.string("status").value_or(""));
  if (!status) return Error(Code::Internal, "a stored invocation has no status");
  record.status = *status;
  record.function_id = std::string(root.string("function_id").value_or(""));
  if (const auto key = root.string("session_key")) record.session_key = std::string(*key);
  record.attempts = static_cast<std::uint32_t>(root.integer("attempts").value_or(0));
  record.seq = static_cast<std::uint64_t>(root.integer("seq").value_or(0));
  record.created_at = timeOf(root, "created_at").value_or(Timestamp());
  record.due_at = timeOf(root, "due_at");
  record.started_at = timeOf(root, "started_at");
  record.finished_at = timeOf(root, "finished_at");
  record.status_code = static_cast<int>(root.integer("status_code").value_or(0));
  record.instance = std::string(root.string("instance").value_or(""));
  return record;
}

std::string QueuedRequest::toJson() const {
  std::string json = fmt::format(R"({{"timeout_ms":{},"priority":{})", timeout.count(), priority);
  if (!traceparent.empty()) {
    json += R"(,"traceparent":)";
    appendJsonString(json, traceparent);
  }
  json.append(R"(,"payload":)").append(payload).append("}");
  return json;
}

Result<QueuedRequest> QueuedRequest::fromJson(std::string_view json) {
  QueuedRequest request;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "payload") request.payload = std::string(member.value);
  }
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  request.traceparent = std::string(root.string("traceparent").value_or(""));
  request.timeout = Millis(root.integer("timeout_ms").value_or(30'000));
  request.priority = static_cast<int>(root.integer("priority").value_or(5));
  return request;
}

std::string laneOf(std::string_view request_id) {
  return laneKey(static_cast<unsigned>(std::hash<std::string_view>()(request_id) % kLanes));
}

std::string laneKey(unsigned lane) {
  return fmt::format("{}{}", kLaneMark, lane);
}

bool isLane(std::string_view session_key) {
  return session_key.starts_with(kLaneMark);
}

store::Partition linePartition(std::string_view function_id, std::string_view session_key) {
  if (!isLane(session_key)) return sessionPartition(function_id, session_key);
  return {"lane", {function_id, session_key.substr(1)}};
}

store::Partition goneInvocations(std::string_view function_id) {
  return {"gone-invocations", {function_id}};
}

std::string LineName::toJson() const {
  std::string json = R"({"function":)";
  appendJsonString(json, function_id);
  json += R"(,"key":)";
  appendJsonString(json, key);
  json += '}';
  return json;
}

Result<LineName> LineName::fromJson(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  return LineName{std::string(root.string("function").value_or("")),
                  std::string(root.string("key").value_or(""))};
}

store::Listing listInvocation(std::string request_id, const LineName& line) {
  return {kInvocationDirectory, std::move(request_id), line.toJson()};
}

store::Listing listWork(const LineName& line) {
  return {kWorkDirectory, linePartition(line.function_id, line.key).name(), line.toJson()};
}

store::Listing unlistWork(const LineName& line) {
  return {kWorkDirectory, linePartition(line.function_id, line.key).name(), std::nullopt};
}

store::Listing listDue(Timestamp due_at, std::string_view request_id, const LineName& line) {
  store::Listing listing = unlistDue(due_at, request_id);
  listing.value = line.toJson();
  return listing;
}

store::Listing unlistDue(Timestamp due_at, std::string_view request_id) {
  return {kDueDirectory,
          fmt::format("{:0{}}:{}", due_at.time_since_epoch().count(), kDueDigits, request_id),
          std::nullopt};
}

std::optional<Due> readDue(std::string_view key) {
  std::int64_t millis = 0;
  if (key.size() <= kDueDigits || key[kDueDigits] != ':') return std::nullopt;
  const auto [end, failure] = std::from_chars(key.data(), key.data() + kDueDigits, millis);
  if (failure != std::errc() || end != key.data() + kDueDigits) return std::nullopt;
  return Due{Timestamp(Millis(millis)), std::string(key.substr(kDueDigits + 1))};
}

store::op::Put putInvocation(std::string request_id, const InvocationRecord& record,
                             std::optional<Timestamp> expires_at) {
  store::op::Put put;
  put.space = kInvocationSpace;
  put.key = std::move(request_id);
  put.value = record.toJson();
  put.expiry.at = expires_at;
  return put;
}

}  // namespace nimbus::session
