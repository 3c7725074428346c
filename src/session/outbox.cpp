#include "session/outbox.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace nimbus::session {

Result<> checkSent(const SentCall& sent) {
  NIMBUS_CHECK(checkName("function", sent.function_id));
  if (sent.session_key) NIMBUS_CHECK(checkText("session key", *sent.session_key));
  if (sent.delay < Millis::zero())
    return Error(Code::InvalidArgument, "a delay cannot be negative");
  return {};
}

std::string encodeSent(const SentCall& sent, std::string_view traceparent) {
  std::string json = R"({"function":)";
  appendJsonString(json, sent.function_id);
  if (sent.session_key) {
    json += R"(,"session_key":)";
    appendJsonString(json, *sent.session_key);
  }
  if (!traceparent.empty()) {
    json += R"(,"traceparent":)";
    appendJsonString(json, traceparent);
  }
  fmt::format_to(std::back_inserter(json), R"(,"delay_ms":{},"payload":{}}})", sent.delay.count(),
                 sent.payload);
  return json;
}

Result<Delivery> decodeSent(std::string request_id, std::string_view json) {
  Delivery delivery;
  CallPtr call(new Call);
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "payload") call->payload = std::string(member.value);
  }
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  call->request_id = std::move(request_id);
  if (const auto key = root.string("session_key")) call->session_key = std::string(*key);
  call->traceparent = std::string(root.string("traceparent").value_or(""));
  call->may_be_repeated = true;
  delivery.receiver = std::string(root.string("function").value_or(""));
  delivery.delay = Millis(root.integer("delay_ms").value_or(0));
  delivery.call = std::move(call);
  return delivery;
}

void addToOutbox(store::Batch& batch, const Call& call) {
  for (std::size_t i = 0; i < call.sent.size(); ++i) {
    store::op::Push push;
    push.queue = kOutboxQueue;
    push.id = fmt::format("{}.{}.{}", call.request_id, call.attempt, i + 1);
    push.payload = encodeSent(call.sent[i], call.traceparent);
    batch.operations.emplace_back(std::move(push));
  }
}

}  // namespace nimbus::session
