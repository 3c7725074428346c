#pragma once
// How sessions and events lie in Redis in the layout before event logs, "V1", and what becomes of
// them:
//
//   sess:{app}:{user}            a hash: session id -> {"id", "state", "createdAt", "updatedAt"}
//   event:{app}:{user}:{session} a sorted set: when -> the whole event as JSON
//
// Braces are written around both names, around the app, or not at all.

#include "base/result.h"

#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cli {

inline constexpr std::string_view kV1Sessions = "sess:";
inline constexpr std::string_view kV1Events = "event:";

struct V1Owner {
  std::string app;
  std::string user;
};
// Nothing if the key is not one of a hash of sessions.
std::optional<V1Owner> parseV1Key(std::string_view key);

// Where the events of a session of that hash may be.
std::vector<std::string> v1EventKeys(std::string_view sessions_key, std::string_view id);

struct V1Session {
  std::string state = "{}";  // JSON, as it is given to a new session
  std::string created_at;    // empty: unknown
  std::string updated_at;
  std::size_t dropped_keys = 0;  // of the state: temporary ones, and those of other states
};
// Go programs wrote every value of a state as the base64 of its bytes. A state in which all values
// can be such is read so; otherwise values are JSON.
Result<V1Session> parseV1Session(std::string_view json);

struct V1Member {
  std::string json;
  double score = 0;
};
struct V1Event {
  std::string id;
  std::string body;         // as it is appended; what V1 held is its content, byte for byte
  bool has_new_id = false;  // V1 had none, none that can be used, or one twice
};
// InvalidJson if it is no object. `ids`: of the session's events before, to which this one's is
// added. The same member is given the same id whenever it is read.
Result<V1Event> convertV1Event(const V1Member& member, std::set<std::string>& ids);

// Scores are doubles, which do not tell apart what is near: members of one score are put in the
// order of their own times.
void orderV1Members(std::vector<V1Member>& members);

}  // namespace nimbus::cli
