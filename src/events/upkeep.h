#pragma once
// What event logs need done now and then, by any node: what a crash left undone, and what is left
// of sessions that have expired.

#include "base/result.h"
#include "base/task.h"
#include "events/sessions.h"
#include "store/store.h"

namespace nimbus::events {

// Carries out the changes of shared state that were left behind.
Task<Result<>> carryOutLeftIntents(store::Store& store);

// Removes sessions whose time is over, at most some hundred per app.
Task<Result<>> removeExpiredSessions(store::Store& store, Sessions& sessions);

// Removes what has expired of tracks, at most some hundred.
Task<Result<>> removeExpiredTracks(store::Store& store);

}  // namespace nimbus::events
