#pragma once
// Whether a session's events, indexes and lists agree, and making them agree.
//
// The events themselves are the truth: indexes are compared with what follows from them, and are
// made again from them. Both look at every event of the session.

#include "base/result.h"
#include "base/task.h"
#include "events/names.h"
#include "events/turns.h"
#include "store/store.h"

#include <string>
#include <vector>

namespace nimbus::events {

struct Issue {
  // index_missing      an event is not found by a field it has
  // index_stale        an event is found by a field it does not have
  // event_unreadable   the text of an event is none of ours
  // count_wrong        the log counts other events than it has
  // not_listed         the lists of sessions do not show it
  // state_pending      a change of app or user state was not carried out yet
  std::string type;
  std::string event_id;  // empty: it is not about one
  std::string track;     // empty: the session's own events
  std::string message;

  std::string toJson() const;
};

Task<Result<std::vector<Issue>>> checkSession(store::Store& store, SessionName name);
// Repairs what can be; returns what was found before. An event whose indexes were wrong has a new
// version afterwards.
Task<Result<std::vector<Issue>>> repairSession(store::Store& store, Turns& turns, SessionName name);

}  // namespace nimbus::events
