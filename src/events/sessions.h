#pragma once
// Sessions of an app's users: made, listed, shown, forked, removed.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/event.h"
#include "events/names.h"
#include "events/open_session.h"
#include "events/turns.h"
#include "store/store.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

struct NewSession {
  std::string id;  // empty: to be made
  std::string title;
  StateDelta state;
  std::optional<Timestamp> created_at;  // of one that comes from elsewhere; absent: now
};
// Of an empty text too: everything may be left out.
Result<NewSession> parseSession(std::string_view json);

// What is committed only where no session is.
store::Batch ifThereIsNone();
Error sessionExists(const SessionName& name);

// Which sessions are listed.
struct SessionQuery {
  std::string app;
  std::optional<std::string> user;  // absent: those of all users
  std::string owner_prefix;         // how their owners begin
  std::string after;                // `next` of the page before
  std::size_t limit = 100;
};

// It can have fewer items than asked for, also if it is not the last.
struct SessionPage {
  std::vector<Session> items;
  std::optional<std::string> next;  // where it goes on, if there may be more
};

// Any thread.
class Sessions {
 public:
  // Everything must outlive it.
  Sessions(store::Store& store, Random& random, Turns& turns)
      : store_(store), random_(random), turns_(turns) {}

  // Conflict if there is one of that id.
  Task<Result<Session>> create(std::string app, std::string user, NewSession session);
  Task<Result<Session>> get(SessionName name);
  // The newest changed first. Entries for sessions that are not there any more are removed on the
  // way.
  Task<Result<SessionPage>> list(SessionQuery query);
  // With its events, tracks, state and summaries. What a function keeps in the same partition
  // stays. NotFound if there is none.
  Task<Result<>> remove(SessionName name);

  // A new session of the same user with the events up to `at_seq` and the state, both as they were
  // at one moment. The events are numbered anew, without gaps. NotFound if no event had that seq
  // yet.
  Task<Result<Session>> fork(SessionName from, std::optional<store::Seq> at_seq, NewSession to);

  // Removes what is left of a session that has expired. Nothing if it has not.
  Task<Result<>> removeExpired(SessionName name);

 private:
  Task<Result<Session>> make(SessionName name, NewSession session,
                             std::optional<store::Fence> fence, bool clear_first);
  Task<Result<store::Batch>> clearing(SessionName name);

  // forking.cpp
  struct Source;
  Task<Result<Source>> openSource(SessionName name);
  Task<Result<store::Fence>> beginCopy(SessionName to);
  Task<Result<>> copyEvents(SessionName from, store::Seq last, SessionName to, store::Fence fence);
  Task<Result<bool>> isUnedited(SessionName name, std::uint64_t generation, std::uint64_t edits);
  Task<Result<>> discardCopy(SessionName name, store::Fence fence, bool is_over);
  Task<Result<Session>> copy(SessionName from, std::optional<store::Seq> at_seq, SessionName name,
                             NewSession to, store::Fence fence);

  store::Store& store_;
  Random& random_;
  Turns& turns_;
};

}  // namespace nimbus::events
