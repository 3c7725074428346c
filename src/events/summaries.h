#pragma once
// What somebody made of a session's events up to one of them, in few words. One per filter key.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"
#include "events/names.h"
#include "events/turns.h"
#include "store/store.h"

#include <string>
#include <string_view>

namespace nimbus::events {

struct Summary {
  std::string text;
  std::string last_event_id;  // the newest event it knows of
  store::Seq last_seq = 0;    // of that event
  std::string filter_key;     // empty: of all events
  Timestamp updated_at;

  std::string toJson() const;
};

// {"text", "last_event_id", "filter_key"?}. Set only if it knows of more than the one before:
// otherwise Conflict, field `last_seq`; the same again is no conflict. NotFound if there is no such
// session or event.
Task<Result<Summary>> putSummary(store::Store& store, Turns& turns, SessionName name,
                                 std::string json);
Task<Result<Summary>> getSummary(store::Store& store, SessionName name, std::string filter_key);

}  // namespace nimbus::events
