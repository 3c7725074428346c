#pragma once
// Events that a call of a function appends to the log of its session.
//
// They are committed with what else the call did, by the session's owner, whose commit must not be
// refused for anything that others do to the log meanwhile. So what an append depends on is read
// before, and the operations made of it hold whatever happens in between. A log that is not there
// yet is made.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/names.h"
#include "events/shared_state.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <vector>

namespace nimbus::events {

struct CallAppend {
  std::vector<store::Operation> operations;
  std::vector<store::Listing> listings;
  // To be carried out when the commit is durable, before the call is answered.
  std::optional<Intent> intent;
};

// `events`: JSON, one each. Whatever the session's owner committed before must be durable. Errors
// are the function's: InvalidArgument, Conflict (an id is another event's), QuotaExceeded.
Task<Result<CallAppend>> planCallAppend(store::Store& store, Random& random, SessionName session,
                                        std::vector<std::string> events);

// The newest `count` events, in order, as JSON.
Task<Result<std::vector<std::string>>> recentEvents(store::Store& store, SessionName session,
                                                    std::size_t count);

}  // namespace nimbus::events
