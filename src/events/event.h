#pragma once
// An event: as a client gives it, as the log keeps it, as it is answered.
//
// The log's entry holds, as text,
//   <created_ms> <evicted> <timestamp_ms>\n<members>
// where `members` is the inside of the JSON object that is answered, but for what the entry itself
// knows (id, seq, version, created_at): what a client sent is passed on as it came. `evicted` is
// how many events made room for this one, for whoever repeats the append.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "store/batch.h"
#include "store/types.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

// Fields by which events are found. A new index is one more name here.
inline constexpr std::array<std::string_view, 4> kIndexes = {"request_id", "invocation_id",
                                                             "author", "tag"};
// Conversations are made of it, so it is always there.
inline constexpr std::string_view kConversationIndex = "request_id";
// By timestamp; always there too. See timeTerm().
inline constexpr std::string_view kTimeIndex = "time";

// One change of a state; without a value the key is removed.
struct Change {
  std::string key;
  std::optional<std::string> value;  // JSON, as it came

  bool operator==(const Change&) const = default;
};

// What a state_delta does, by where it does it. Keys are without their prefix.
struct StateDelta {
  std::vector<Change> session;
  std::vector<Change> app;
  std::vector<Change> user;

  bool isShared() const { return !app.empty() || !user.empty(); }
  void add(const StateDelta& later);
};

// The members of a JSON object as changes: null removes. `temp:` keys are left out. InvalidArgument
// if a key is none.
Result<StateDelta> parseDelta(std::string_view json);

// An event to be appended, or to replace one.
struct NewEvent {
  std::string id;  // empty: to be made
  std::string fingerprint;
  std::array<std::optional<std::string>, kIndexes.size()> fields;  // as kIndexes
  std::optional<Timestamp> timestamp;                              // absent: when it is appended
  std::string members;                                             // without the timestamp
  std::string timestamp_text;                                      // JSON, as it came
  StateDelta delta;

  const std::optional<std::string>& field(std::string_view index) const;
};

// InvalidJson or InvalidArgument, naming the field.
Result<NewEvent> parseEvent(std::string_view json);
// One event or an array of at most kMaxEvents, each with an id of its own.
inline constexpr std::size_t kMaxEvents = 500;
Result<std::vector<NewEvent>> parseEvents(std::string_view json);

std::string makeEventId(Random& random);

// The head of an entry's value.
struct StoredHead {
  Timestamp created_at;
  std::uint64_t evicted = 0;
  Timestamp timestamp;
};

std::string storedText(const NewEvent& event, const StoredHead& head);
// Nothing if the text is none of ours.
std::optional<StoredHead> headOf(std::string_view stored);
std::string_view membersOf(std::string_view stored);

// How a moment stands in the time index: in the order of its bytes.
std::string timeTerm(Timestamp time);
std::vector<store::Term> termsOf(const NewEvent& event, Timestamp timestamp,
                                 const std::vector<std::string>& indexes);
// The same, of what is stored already. Nothing if it cannot be read.
std::optional<std::vector<store::Term>> termsOf(std::string_view stored,
                                                const std::vector<std::string>& indexes);

// The operation that appends the event to a log of the store.
store::op::Append appendOf(const std::string& log, const NewEvent& event, const StoredHead& head,
                           const std::vector<std::string>& indexes);

// The value of an indexed field; from the entry's terms if it is there, from its text otherwise.
std::optional<std::string> fieldOf(const store::Entry& entry, std::string_view index);
// The conversation it names, if it names one.
std::optional<std::string> conversationOf(const store::Entry& entry);

// {"id", "seq", "version", "created_at", "timestamp", ...what the client gave}
std::string eventText(const store::Entry& entry);

}  // namespace nimbus::events
