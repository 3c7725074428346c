#pragma once
// The state of a session, of a user, of an app: JSON by key, all of it read at once.

#include "base/result.h"
#include "base/task.h"
#include "events/event.h"
#include "events/names.h"
#include "events/turns.h"
#include "store/store.h"

#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

// Keys and values as JSON, by key.
using StateMembers = std::vector<std::pair<std::string, std::string>>;

Task<Result<StateMembers>> readState(store::Store& store, store::Partition partition);
// {"key": value, ...}
std::string stateText(const StateMembers& members);

// Changes that are sent as a JSON object: null removes. Of a session: InvalidArgument for keys of
// app and user state, which have their own places. Returns the whole state as it then is.
Task<Result<StateMembers>> patchSessionState(store::Store& store, Turns& turns, SessionName name,
                                             std::string json);
// Of an app or user.
Task<Result<StateMembers>> patchSharedState(store::Store& store, store::Partition partition,
                                            std::string json);

}  // namespace nimbus::events
