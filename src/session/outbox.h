#pragma once
// Calls that functions send: they leave with the commit of the call that sent them, and enter the
// line of their receiver afterwards, once, in the order in which they were sent.
//
// A line's outbox is a queue beside its state. Whoever owns the line hands its first item over and
// then removes it; if that is cut off between, it is handed over again, and the receiver knows it
// by its request id, which is made from the sender's.

#include "base/clock.h"
#include "base/result.h"
#include "session/call.h"
#include "store/batch.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::session {

inline constexpr const char* kOutboxQueue = "outbox";
// Of one call.
inline constexpr std::size_t kMostSent = 1000;

// What must be known of it before it leaves: that somebody is there to receive it.
Result<> checkSent(const SentCall& sent);

// Adds what the call has sent.
void addToOutbox(store::Batch& batch, const Call& call);

std::string encodeSent(const SentCall& sent, std::string_view traceparent);
// What is left for the receiver. The function is for the caller to set: `receiver` names it.
struct Delivery {
  std::string receiver;
  CallPtr call;
  Millis delay{};
};
Result<Delivery> decodeSent(std::string request_id, std::string_view json);

}  // namespace nimbus::session
