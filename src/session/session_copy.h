#pragma once
// A session as it is carried from one server to another: its state, its event log, and its
// asynchronous calls that wait. What was parked stays behind.
//
// Values are text in text, so that whoever carries the document may parse and write it anew: what
// they hold stays as it was, byte for byte, and so does its checksum.

#include "base/clock.h"
#include "base/result.h"
#include "session/event_copy.h"
#include "session/session_record.h"
#include "store/batch.h"
#include "store/store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::session {

struct SessionCopy {
  struct Value {
    std::string key;
    std::string value;  // JSON
    store::Version version = 0;
    std::optional<Timestamp> expires_at;

    bool operator==(const Value&) const = default;
  };
  struct Waiting {
    std::string request;  // JSON of a QueuedRequest
    std::uint64_t seq = 0;
    std::optional<Timestamp> due_at;  // absent: it stands in the line

    bool operator==(const Waiting&) const = default;
  };

  std::string function_id;
  std::string session_key;
  Timestamp created_at;
  Timestamp last_access;
  std::uint64_t next_seq = 1;
  std::vector<Value> state;
  std::vector<Waiting> queue;
  std::optional<EventCopy> events;  // absent: it has no event log

  // All of it in one text: what a checksum is made of.
  std::string content() const;

  std::string toJson(std::string_view checksum) const;
  struct Parsed;
  // InvalidArgument if it is no such document.
  static Result<Parsed> fromJson(std::string_view json);

  bool operator==(const SessionCopy&) const = default;
};

struct SessionCopy::Parsed {
  SessionCopy copy;
  std::string checksum;
};

// As it is in the store now. NotFound if there is no such session; TooLarge if it has more than
// can be carried at once.
Task<Result<SessionCopy>> copySession(store::Store& store, std::string function_id,
                                      std::string session_key);

// What makes a session of it that is not there yet, but for its events. `version`: of its record.
// `prefix`: of the request ids of its calls.
store::Batch importBatch(const SessionCopy& copy, store::Version version, std::string_view prefix,
                         Timestamp now);

}  // namespace nimbus::session
