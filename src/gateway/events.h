#pragma once
// /api/v1/apps: the sessions of an app's users, their events, tracks, state and summaries.

#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/log.h"
#include "events/sessions.h"
#include "events/turns.h"
#include "http/request.h"
#include "http/response.h"
#include "http/route.h"
#include "store/store.h"

#include <string>

namespace nimbus::http {
class Router;
}

namespace nimbus::gateway {

class Events {
 public:
  // Everything must outlive the server that serves these routes.
  Events(store::Store& store, Random& random)
      : store_(store), log_(store, random, turns_), sessions_(store, random, turns_) {}

  void addRoutes(http::Router& router);

  events::Sessions& sessions() { return sessions_; }

 private:
  using Answering = Task<Result<http::Response>>;
  using Method = Answering (Events::*)(http::Request&);

  // events_sessions.cpp
  Answering showApp(http::Request& request);
  Answering putApp(http::Request& request);
  Answering createSession(http::Request& request);
  Answering listSessions(http::Request& request);
  Answering showSession(http::Request& request);
  Answering deleteSession(http::Request& request);
  Answering forkSession(http::Request& request);
  Answering showState(http::Request& request);
  Answering patchState(http::Request& request);
  Answering putSummary(http::Request& request);
  Answering showSummary(http::Request& request);
  Answering checkSession(http::Request& request);
  Answering repairSession(http::Request& request);
  Answering listTracks(http::Request& request);
  Answering showTrack(http::Request& request);
  Answering putTrack(http::Request& request);
  Answering deleteTrack(http::Request& request);
  Task<Result<std::string>> sessionText(events::Session session, std::string more);

  // events_log.cpp
  Answering appendEvents(http::Request& request);
  Answering listEvents(http::Request& request);
  Answering showEvent(http::Request& request);
  Answering putEvent(http::Request& request);
  Answering deleteEvent(http::Request& request);
  Answering trimEvents(http::Request& request);
  Answering rewindEvents(http::Request& request);
  Answering followEvents(http::Request& request);

  // events.cpp
  void addAppRoutes(http::Router& router);
  void addSessionRoutes(http::Router& router);
  // Of a session's events, or of a track's.
  void addLogRoutes(http::Router& router, const std::string& base, const std::string& what);
  http::Handler handler(Method method);

  store::Store& store_;
  events::Turns turns_;
  events::Log log_;
  events::Sessions sessions_;
};

// Forbidden if a key with a prefix may not reach that session, or the state that sessions beyond
// its reach share.
Result<> checkReach(const http::Request& request, const events::SessionName& session);
Result<> checkShared(const http::Request& request, const std::string& user,
                     const events::StateDelta& delta);

// The session that the path names; the log of it, or of its track.
events::SessionName sessionOf(const http::Request& request);
events::LogName logOf(const http::Request& request);

}  // namespace nimbus::gateway
