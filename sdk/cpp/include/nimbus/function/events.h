#pragma once
// The event log of the call's session, as functions see it.

#include <nimbus/function/state.h>

namespace nimbus {

// For the length of a call. Events are appended when the call ends, together with its state, or not
// at all if it fails. Every operation may throw StateError.
class Events {
 public:
  // Of the call that the state belongs to.
  explicit Events(const State& state) : call_(&state.call()) {}

  // An object with a `content`, and perhaps id, author, request_id, invocation_id, tag, timestamp
  // and state_delta.
  void append(const Json& event) const {
    if (!event.isObject() || event.find("content") == nullptr) {
      throw StateError("invalid_argument", "an event is an object that has a content");
    }
    call_->appendEvent(event.text());
  }

  // The newest `count` events, 1 to 1000, oldest first: those of the log, then those that this call
  // has appended, which have no seq yet.
  Json recent(std::int64_t count = 10) const { return Json(call_->recentEvents(count)); }

 private:
  native::Call* call_;
};

}  // namespace nimbus
