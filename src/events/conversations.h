#pragma once
// Conversations: the events of one request id. An event without one belongs to the conversation of
// the event before it; those before the first request id are a conversation of their own.
//
// What is looked at is what is removed, and little more: nothing here costs more in a long log.

#include "base/result.h"
#include "base/task.h"
#include "events/app_settings.h"
#include "events/event.h"
#include "events/names.h"
#include "store/store.h"

#include <cstddef>
#include <string>
#include <vector>

namespace nimbus::events {

// Events that go together. The operations hold only for the revision of the log that was read.
struct Removal {
  std::vector<store::Entry> entries;  // in order
  std::vector<store::Operation> operations;
};

// At most this many events are removed at once.
inline constexpr std::size_t kMaxRemoved = 50'000;

// The newest `count` conversations, leading events without a request id not among them.
// TooLarge if they have too many events.
Task<Result<Removal>> newestConversations(store::Store& store, LogName log, std::size_t count);

// Oldest conversations that must go so that, with `events` appended, at most what the retention
// leaves remains. Those of `events` stay. Nothing if there is room.
Task<Result<Removal>> evictedBy(store::Store& store, LogName log, store::LogInfo info,
                                const std::vector<NewEvent>& events, Retention retention);

}  // namespace nimbus::events
