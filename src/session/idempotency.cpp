#include "session/idempotency.h"

#include "base/json.h"
#include "base/json_text.h"
#include "session/function_metrics.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace nimbus::session {
namespace {

void appendMember(std::string& json, std::string_view name, std::string_view text) {
  fmt::format_to(std::back_inserter(json), R"(,"{}":)", name);
  appendJsonString(json, text);
}

}  // namespace

bool isToBeStored(const Outcome& outcome) {
  if (!outcome.error) return true;
  const Code code = outcome.error->code();
  return code == Code::FunctionError || code == Code::FunctionCrashed || code == Code::Timeout;
}

Error otherRequest() {
  return {Code::Unprocessable,
          "the Idempotency-Key was used for another request: a new request needs a new key"};
}

std::string StoredAnswer::toJson() const {
  std::string json = R"({"fingerprint":)";
  appendJsonString(json, fingerprint);
  appendMember(json, "request_id", request_id);
  if (session_key) appendMember(json, "session_key", *session_key);
  appendMember(json, "node", node);
  appendMember(json, "instance", outcome.instance);
  fmt::format_to(std::back_inserter(json),
                 R"(,"accepted":{},"seq":{},"status_code":{},"duration_us":{})", is_accepted,
                 outcome.seq, outcome.status_code, outcome.duration.count());
  if (outcome.error) {
    appendMember(json, "code", codeName(outcome.error->code()));
    appendMember(json, "message", outcome.error->message());
  }
  if (outcome.failure) {
    appendMember(json, "type", outcome.failure->type);
    appendMember(json, "raised", outcome.failure->message);
    appendMember(json, "trace", outcome.failure->trace);
  }
  if (!outcome.body.empty()) json.append(R"(,"body":)").append(outcome.body);
  json += '}';
  return json;
}

Result<StoredAnswer> StoredAnswer::fromJson(std::string_view json) {
  StoredAnswer answer;
  Outcome& outcome = answer.outcome;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "body") outcome.body = std::string(member.value);
  }
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto text = [&](std::string_view name) {
    return std::string(root.string(name).value_or(""));
  };
  answer.fingerprint = text("fingerprint");
  answer.request_id = text("request_id");
  if (root.string("session_key")) answer.session_key = text("session_key");
  answer.node = text("node");
  answer.is_accepted = root.boolean("accepted").value_or(false);
  outcome.instance = text("instance");
  outcome.seq = static_cast<std::uint64_t>(root.integer("seq").value_or(0));
  outcome.status_code = static_cast<int>(root.integer("status_code").value_or(200));
  outcome.duration = std::chrono::microseconds(root.integer("duration_us").value_or(0));
  if (const auto code = root.string("code")) {
    outcome.error = Error(codeNamed(*code).value_or(Code::Internal), text("message"));
  }
  if (root.string("type")) {
    outcome.failure = FunctionFailure{text("type"), text("raised"), text("trace")};
  }
  return answer;
}

void AnswerJournal::addTo(store::Batch& batch, const Call& call) {
  if (!isToBeStored(call.outcome)) return;
  StoredAnswer answer;
  answer.fingerprint = options_.idempotency.fingerprint;
  answer.request_id = call.request_id;
  answer.session_key = call.session_key;
  answer.node = options_.node;
  answer.is_accepted = options_.is_accepted;
  answer.outcome = call.outcome;
  store::op::Put put;
  put.space = kIdempotencySpace;
  put.key = options_.idempotency.name;
  put.value = answer.toJson();
  put.expiry.at = store_.now() + options_.keep;
  put.expected = 0;
  batch.operations.emplace_back(std::move(put));
  const LineName line{call.function->id,
                      call.session_key ? *call.session_key : laneOf(call.request_id)};
  batch.listings.push_back({kIdempotencyDirectory, options_.idempotency.name, line.toJson()});
}

Result<> KeysInUse::take(const Idempotency& idempotency) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = fingerprints_.emplace(idempotency.name, idempotency.fingerprint);
  if (is_new) return {};
  if (place->second != idempotency.fingerprint) return otherRequest();
  return Error(Code::Conflict, "a request with this Idempotency-Key is under way")
      .with("retry_after_ms", 1000);
}

void KeysInUse::release(const std::string& name) {
  const std::lock_guard lock(mutex_);
  fingerprints_.erase(name);
}

}  // namespace nimbus::session
