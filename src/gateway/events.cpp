#include "gateway/events.h"

#include "http/router.h"

#include <utility>

namespace nimbus::gateway {
namespace {

const std::string kApp = "/api/v1/apps/{app:name}";
const std::string kUser = kApp + "/users/{user}";
const std::string kSession = kUser + "/sessions/{sid}";
constexpr const char* kObject = R"({"type":"object"})";
constexpr const char* kInteger = R"({"type":"integer"})";
constexpr const char* kEventSchema =
    R"({"type":"object","required":["content"],"properties":{)"
    R"("id":{"type":"string"},"request_id":{"type":"string"},)"
    R"("invocation_id":{"type":"string"},"author":{"type":"string"},)"
    R"("timestamp":{"type":"string","format":"date-time"},)"
    R"("content":{},"state_delta":{"type":"object"},)"
    R"("tag":{"type":"string"}}})";

http::Route reading(std::string pattern, std::string summary) {
  http::Route route;
  route.method = http::Method::Get;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Event logs";
  route.scope = "events:read";
  route.errors = {Code::NotFound, Code::Unavailable};
  return route;
}

http::Route writing(http::Method method, std::string pattern, std::string summary) {
  http::Route route = reading(std::move(pattern), std::move(summary));
  route.method = method;
  route.scope = "events:write";
  return route;
}

std::vector<http::QueryNote> pageNotes() {
  return {{"limit", "1 to 1000; 100 if it is not given.", kInteger},
          {"cursor", "The next_cursor of the page before."}};
}

}  // namespace

http::Handler Events::handler(Method method) {
  return [this, method](http::Request& request) { return (this->*method)(request); };
}

void Events::addRoutes(http::Router& router) {
  addAppRoutes(router);
  addSessionRoutes(router);
  addLogRoutes(router, kSession, "a session");
  addLogRoutes(router, kSession + "/tracks/{track:name}", "a track");
}

void Events::addAppRoutes(http::Router& router) {
  http::Route route = reading(kApp, "Settings of an app");
  route.handler = handler(&Events::showApp);
  route.answers = {{200, "The settings; the defaults if none were made.", kObject}};
  router.add(std::move(route));

  route = writing(http::Method::Put, kApp, "Set how an app's sessions are kept");
  route.description = "What is not given stays. Oldest conversations are evicted as a whole.";
  route.handler = handler(&Events::putApp);
  route.body = {{"",
                 R"({"type":"object","properties":{"max_events_per_session":{"type":"integer"},)"
                 R"("eviction_batch_size":{"type":"integer"},"session_ttl":{"type":"number"},)"
                 R"("indexes":{"type":"array","items":{"type":"string"}}}})"}};
  route.answers = {{200, "The settings.", kObject}};
  router.add(std::move(route));

  route = reading(kApp + "/sessions", "Sessions of an app, the newest changed first");
  route.checks_reach = true;
  route.handler = handler(&Events::listSessions);
  route.query = pageNotes();
  route.answers = {{200, "A page, without states and events.", kObject}};
  router.add(std::move(route));

  const std::pair<std::string, std::string> states[] = {
      {kApp, "an app"}, {kUser, "a user"}, {kSession, "a session"}};
  for (const auto& [base, what] : states) {
    route = reading(base + "/state", "The state of " + what);
    route.handler = handler(&Events::showState);
    route.answers = {{200, "Values by key, as they were stored.", kObject}};
    router.add(std::move(route));

    route = writing(http::Method::Patch, base + "/state", "Change the state of " + what);
    route.description = "Sets the keys given; null removes a key.";
    route.handler = handler(&Events::patchState);
    route.body = {{"Values by key.", kObject}};
    route.answers = {{200, "The whole state.", kObject}};
    route.errors = {Code::NotFound, Code::QuotaExceeded, Code::Unavailable};
    router.add(std::move(route));
  }
}

void Events::addSessionRoutes(http::Router& router) {
  http::Route route = writing(http::Method::Post, kUser + "/sessions", "Make a session");
  route.checks_reach = true;
  route.handler = handler(&Events::createSession);
  route.body = {{"", R"({"type":"object","properties":{"id":{"type":"string"},)"
                     R"("title":{"type":"string"},"state":{"type":"object"},)"
                     R"("created_at":{"type":"string","format":"date-time"}}})"}};
  route.answers = {{201, "The session.", kObject}};
  route.errors = {Code::Conflict, Code::QuotaExceeded, Code::Unavailable};
  router.add(std::move(route));

  route = reading(kUser + "/sessions", "Sessions of a user, the newest changed first");
  route.checks_reach = true;
  route.handler = handler(&Events::listSessions);
  route.query = pageNotes();
  route.answers = {{200, "A page, without states and events.", kObject}};
  router.add(std::move(route));

  route = reading(kSession, "A session and its newest events");
  route.handler = handler(&Events::showSession);
  route.query = {{"events", "How many of the newest events, 0 to 1000.", kInteger},
                 {"after", "Only events behind this seq.", kInteger},
                 {"merge_state", "The app's and user's state too, as app: and user: keys.",
                  R"({"type":"boolean"})"}};
  route.answers = {{200, "The session.", kObject}};
  router.add(std::move(route));

  route = writing(http::Method::Delete, kSession, "Remove a session with all it has");
  route.handler = handler(&Events::deleteSession);
  route.answers = {{204, "Gone."}};
  router.add(std::move(route));

  route = writing(http::Method::Post, kSession + ":fork", "Copy a session up to an event");
  route.description = "Events are numbered anew; the state is copied as it is now.";
  route.handler = handler(&Events::forkSession);
  route.body = {{"", R"({"type":"object","properties":{"at_seq":{"type":"integer"},)"
                     R"("new_id":{"type":"string"},"title":{"type":"string"}}})"}};
  route.answers = {{201, "The new session.", kObject}};
  route.errors = {Code::NotFound, Code::Conflict, Code::Unavailable};
  router.add(std::move(route));

  route = writing(http::Method::Put, kSession + "/summary", "Set a summary, if it knows of more");
  route.handler = handler(&Events::putSummary);
  route.body = {{"", R"({"type":"object","required":["text","last_event_id"],"properties":{)"
                     R"("text":{"type":"string"},"last_event_id":{"type":"string"},)"
                     R"("filter_key":{"type":"string"}}})"}};
  route.answers = {{200, "The summary.", kObject}};
  route.errors = {Code::NotFound, Code::Conflict, Code::QuotaExceeded, Code::Unavailable};
  router.add(std::move(route));

  route = reading(kSession + "/summary", "A summary");
  route.handler = handler(&Events::showSummary);
  route.query = {{"filter_key"}};
  route.answers = {{200, "The summary.", kObject}};
  router.add(std::move(route));

  route = reading(kSession + "/check", "Whether events, indexes and lists agree");
  route.handler = handler(&Events::checkSession);
  route.answers = {{200, "What is wrong.", kObject}};
  router.add(std::move(route));

  route = writing(http::Method::Post, kSession + "/repair", "Make the indexes and lists again");
  route.handler = handler(&Events::repairSession);
  route.answers = {{200, "What was wrong, and what still is.", kObject}};
  router.add(std::move(route));

  route = reading(kSession + "/tracks", "Tracks of a session");
  route.handler = handler(&Events::listTracks);
  route.answers = {{200, "All of them.", kObject}};
  router.add(std::move(route));

  const std::string track = kSession + "/tracks/{track:name}";
  route = reading(track, "A track");
  route.handler = handler(&Events::showTrack);
  route.answers = {{200, "The track.", kObject}};
  router.add(std::move(route));

  route = writing(http::Method::Put, track, "Set how much a track keeps, and how long");
  route.description =
      "`ttl`: seconds after its last append at which a track is empty; 0: never. What is not given "
      "stays.";
  route.handler = handler(&Events::putTrack);
  route.body = {{"", R"({"type":"object","properties":{"max_events":{"type":"integer"},)"
                     R"("eviction_batch_size":{"type":"integer"},"ttl":{"type":"number"}}})"}};
  route.answers = {{200, "The track.", kObject}};
  route.errors = {Code::NotFound, Code::QuotaExceeded, Code::Unavailable};
  router.add(std::move(route));

  route = writing(http::Method::Delete, track, "Remove a track and its events");
  route.handler = handler(&Events::deleteTrack);
  route.answers = {{204, "Gone."}};
  router.add(std::move(route));
}

void Events::addLogRoutes(http::Router& router, const std::string& base, const std::string& what) {
  const std::string all = base + "/events";
  http::Route route = writing(http::Method::Post, all, "Append to the events of " + what);
  route.description =
      "One event, or an array of at most 500: all or nothing. An id that is known with the same "
      "body is answered as the first time. `Nimbus-Expected-Seq: 7` appends only behind seq 7.";
  route.handler = handler(&Events::appendEvents);
  route.body = {{"An event or an array of events.", kEventSchema}};
  route.answers = {{201, "Where it stands.", kObject}, {200, "All were there already.", kObject}};
  route.errors = {Code::NotFound, Code::Conflict, Code::VersionConflict, Code::QuotaExceeded,
                  Code::Unavailable};
  router.add(std::move(route));

  route = reading(all, "Events of " + what);
  route.handler = handler(&Events::listEvents);
  route.query = pageNotes();
  for (http::QueryNote note :
       {http::QueryNote{"order", "asc (default) or desc"}, http::QueryNote{"offset", "", kInteger},
        http::QueryNote{"request_id"}, http::QueryNote{"invocation_id"}, http::QueryNote{"author"},
        http::QueryNote{"tag"}, http::QueryNote{"since", "A time; included."},
        http::QueryNote{"until", "A time; included."},
        http::QueryNote{"around", "An event: those before and behind it."}}) {
    route.query.push_back(std::move(note));
  }
  route.answers = {{200, "A page, by seq.", kObject}};
  router.add(std::move(route));

  route = reading(all + "/stream", "Events of " + what + " as they come");
  route.description = "`Last-Event-ID` is the seq behind which it begins; 0 or absent: all.";
  route.handler = handler(&Events::followEvents);
  route.query = {{"after", "The same as Last-Event-ID, which counts if both are given.", kInteger}};
  route.answers = {{200, "One message per event; its id is the seq.", "", "text/event-stream"}};
  router.add(std::move(route));

  route = reading(all + "/{event}", "An event of " + what);
  route.handler = handler(&Events::showEvent);
  route.answers = {{200, "The event; its version is the ETag.", kObject}};
  router.add(std::move(route));

  route = writing(http::Method::Put, all + "/{event}", "Replace an event of " + what);
  route.description = "`If-Match: \"3\"` replaces only that version.";
  route.handler = handler(&Events::putEvent);
  route.body = {{"The event.", kEventSchema}};
  route.answers = {{200, "The new version.", kObject}};
  route.errors = {Code::NotFound, Code::VersionConflict, Code::Unavailable};
  router.add(std::move(route));

  route = writing(http::Method::Delete, all + "/{event}", "Remove an event of " + what);
  route.handler = handler(&Events::deleteEvent);
  route.answers = {{204, "Gone."}};
  route.errors = {Code::NotFound, Code::VersionConflict, Code::Unavailable};
  router.add(std::move(route));

  route = writing(http::Method::Post, all + ":trim", "Remove the newest conversations of " + what);
  route.handler = handler(&Events::trimEvents);
  route.body = {{"", R"({"type":"object","required":["conversations"],"properties":{)"
                     R"("conversations":{"type":"integer","minimum":1}}})"}};
  route.answers = {{200, "The events that went, oldest first.", kObject}};
  route.errors = {Code::NotFound, Code::TooLarge, Code::Unavailable};
  router.add(std::move(route));

  route =
      writing(http::Method::Post, all + ":rewind", "Remove all events of " + what + " behind one");
  route.handler = handler(&Events::rewindEvents);
  route.body = {{"", R"({"type":"object","properties":{"to_event":{"type":"string"},)"
                     R"("to_seq":{"type":"integer"}}})"}};
  route.answers = {{200, "How many went.", kObject}};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
