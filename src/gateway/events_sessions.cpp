#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "events/app_settings.h"
#include "events/check.h"
#include "events/states.h"
#include "events/summaries.h"
#include "events/tracks.h"
#include "gateway/events.h"
#include "gateway/list_text.h"
#include "gateway/principal.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::size_t kListed = 100;
constexpr std::size_t kMostEvents = 1000;

std::string appOf(const http::Request& request) {
  return std::string(request.parameters["app"]);
}

std::string userOf(const http::Request& request) {
  return std::string(request.parameters["user"]);
}

// Without the closing brace, so that more can be added.
std::string sessionHead(const events::Session& session) {
  std::string text = R"({"id":)";
  appendJsonString(text, session.name.id);
  text += R"(,"app_name":)";
  appendJsonString(text, session.name.app);
  text += R"(,"user_id":)";
  appendJsonString(text, session.name.user);
  text += R"(,"title":)";
  if (session.title.empty()) {
    text += "null";
  } else {
    appendJsonString(text, session.title);
  }
  text += R"(,"created_at":)";
  appendJsonString(text, timeText(session.created_at));
  text += R"(,"updated_at":)";
  appendJsonString(text, timeText(session.updated_at));
  fmt::format_to(std::back_inserter(text),
                 R"(,"event_count":{},"last_seq":{},"evicted_count":{},"generation":{})",
                 session.event_count, session.last_seq, session.evicted_count, session.generation);
  return text;
}

std::string issuesText(const std::vector<events::Issue>& issues) {
  std::string text = "[";
  for (const events::Issue& issue : issues) {
    if (text.size() > 1) text += ',';
    text += issue.toJson();
  }
  text += ']';
  return text;
}

struct Fork {
  std::optional<store::Seq> at_seq;
  events::NewSession to;
};

Result<Fork> parseFork(std::string_view json) {
  Fork fork;
  if (trimJson(json).empty()) return fork;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  std::string session = "{";
  for (const RawMember& member : members) {
    if (member.name == "at_seq") {
      NIMBUS_TRY(const JsonValue value, parseJson(member.value));
      const auto seq = value.integer();
      if (!seq || *seq < 0) return Error(Code::InvalidArgument, "at_seq: this must be a seq");
      fork.at_seq = static_cast<store::Seq>(*seq);
      continue;
    }
    if (member.name == "state" || member.name == "id") {
      return Error(Code::InvalidArgument, fmt::format("{}: not when forking", member.name));
    }
    if (session.size() > 1) session += ',';
    appendJsonString(session, member.name == "new_id" ? "id" : member.name);
    session += ':';
    session += member.value;
  }
  session += '}';
  NIMBUS_TRY(fork.to, events::parseSession(session));
  return fork;
}

void addPrefixed(events::StateMembers& all, std::string_view prefix,
                 const events::StateMembers& members) {
  for (const auto& [key, value] : members) all.emplace_back(std::string(prefix) + key, value);
}

}  // namespace

Result<> checkReach(const http::Request& request, const events::SessionName& session) {
  return gateway::checkSession(request, session.owner());
}

Result<> checkShared(const http::Request& request, const std::string& user,
                     const events::StateDelta& delta) {
  const bool of_function = user == events::kFunctionUser;
  if (delta.app.empty() && (delta.user.empty() || !of_function)) return {};
  return checkAllSessions(request);
}

events::SessionName sessionOf(const http::Request& request) {
  return {appOf(request), userOf(request), std::string(request.parameters["sid"])};
}

// ---- Apps

Events::Answering Events::showApp(http::Request& request) {
  const std::string app = appOf(request);
  NIMBUS_CO_TRY(const events::AppSettings settings, co_await events::readSettings(store_, app));
  co_return http::Response::json(settings.toJson(app));
}

Events::Answering Events::putApp(http::Request& request) {
  const std::string app = appOf(request);
  NIMBUS_CO_TRY(const events::AppSettings settings,
                co_await events::changeSettings(store_, app, request.body));
  co_return http::Response::json(settings.toJson(app));
}

// ---- Sessions

Task<Result<std::string>> Events::sessionText(events::Session session, std::string more) {
  NIMBUS_CO_TRY(const events::StateMembers state,
                co_await events::readState(store_, session.name.partition()));
  co_return sessionHead(session) + R"(,"state":)" + events::stateText(state) + more + '}';
}

Events::Answering Events::createSession(http::Request& request) {
  NIMBUS_CO_TRY(events::NewSession session, events::parseSession(request.body));
  NIMBUS_CO_CHECK(checkReach(request, {appOf(request), userOf(request), session.id}));
  NIMBUS_CO_CHECK(checkShared(request, userOf(request), session.state));
  NIMBUS_CO_TRY(const events::Session made,
                co_await sessions_.create(appOf(request), userOf(request), std::move(session)));
  NIMBUS_CO_TRY(std::string text, co_await sessionText(made, ""));
  co_return http::Response::json(std::move(text), 201);
}

Events::Answering Events::listSessions(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  events::SessionQuery wanted;
  wanted.app = appOf(request);
  if (request.parameters.has("user")) wanted.user = userOf(request);
  wanted.owner_prefix = principalOf(request).session_prefix.value_or("");
  wanted.after = std::move(after);
  wanted.limit = limit;
  NIMBUS_CO_TRY(const events::SessionPage page, co_await sessions_.list(std::move(wanted)));
  ListText text;
  for (const events::Session& session : page.items) text.add(sessionHead(session) + '}');
  co_return http::Response::json(std::move(text).finish(page.next));
}

Events::Answering Events::showSession(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const auto count, query.integer("events", {0, kMostEvents}));
  NIMBUS_CO_TRY(const auto after, query.integer("after", {}));
  NIMBUS_CO_TRY(const bool merge, query.flag("merge_state"));
  const events::LogName log = logOf(request);
  NIMBUS_CO_TRY(const events::Session session, co_await sessions_.get(log.session));
  std::string more;
  if (count.value_or(after ? kMostEvents : 0) > 0) {
    const auto wanted = static_cast<std::size_t>(count.value_or(kMostEvents));
    NIMBUS_CO_TRY(const store::EntryPage page,
                  co_await log_.newest(log, wanted, static_cast<store::Seq>(after.value_or(0))));
    more = R"(,"events":[)";
    for (const store::Entry& entry : page.items) {
      if (more.back() == '}') more += ',';
      more += events::eventText(entry);
    }
    more += fmt::format(R"(],"partial":{})", page.more);
  } else if (count) {
    more = R"(,"events":[])";
  }
  if (!merge) {
    NIMBUS_CO_TRY(std::string text, co_await sessionText(session, std::move(more)));
    co_return http::Response::json(std::move(text));
  }
  const events::SessionName& name = log.session;
  NIMBUS_CO_TRY(events::StateMembers state, co_await events::readState(store_, name.partition()));
  // A key with a prefix sees no state that sessions beyond its reach share.
  const bool reaches_all = !principalOf(request).session_prefix;
  if (reaches_all) {
    NIMBUS_CO_TRY(const events::StateMembers of_app,
                  co_await events::readState(store_, events::appPartition(name.app)));
    addPrefixed(state, "app:", of_app);
  }
  if (reaches_all || name.user != events::kFunctionUser) {
    NIMBUS_CO_TRY(const events::StateMembers of_user,
                  co_await events::readState(store_, events::userPartition(name.app, name.user)));
    addPrefixed(state, "user:", of_user);
  }
  co_return http::Response::json(sessionHead(session) + R"(,"state":)" + events::stateText(state) +
                                 more + '}');
}

Events::Answering Events::deleteSession(http::Request& request) {
  NIMBUS_CO_CHECK(co_await sessions_.remove(sessionOf(request)));
  co_return http::Response::noContent();
}

Events::Answering Events::forkSession(http::Request& request) {
  NIMBUS_CO_TRY(Fork fork, parseFork(request.body));
  NIMBUS_CO_CHECK(checkReach(request, {appOf(request), userOf(request), fork.to.id}));
  NIMBUS_CO_TRY(const events::Session made,
                co_await sessions_.fork(sessionOf(request), fork.at_seq, std::move(fork.to)));
  NIMBUS_CO_TRY(const events::Session session, co_await sessions_.get(made.name));
  NIMBUS_CO_TRY(std::string text, co_await sessionText(session, ""));
  co_return http::Response::json(std::move(text), 201);
}

// ---- State

Events::Answering Events::showState(http::Request& request) {
  const std::string app = appOf(request);
  std::optional<store::Partition> partition;
  if (request.parameters.has("sid")) {
    NIMBUS_CO_TRY(const events::Session session, co_await sessions_.get(sessionOf(request)));
    partition = session.name.partition();
  } else if (request.parameters.has("user")) {
    partition = events::userPartition(app, userOf(request));
  } else {
    partition = events::appPartition(app);
  }
  NIMBUS_CO_TRY(const events::StateMembers state, co_await events::readState(store_, *partition));
  co_return http::Response::json(events::stateText(state));
}

Events::Answering Events::patchState(http::Request& request) {
  if (request.parameters.has("sid")) {
    NIMBUS_CO_TRY(
        const events::StateMembers state,
        co_await events::patchSessionState(store_, turns_, sessionOf(request), request.body));
    co_return http::Response::json(events::stateText(state));
  }
  const store::Partition partition = request.parameters.has("user")
                                         ? events::userPartition(appOf(request), userOf(request))
                                         : events::appPartition(appOf(request));
  NIMBUS_CO_TRY(const events::StateMembers state,
                co_await events::patchSharedState(store_, partition, request.body));
  co_return http::Response::json(events::stateText(state));
}

// ---- Summaries

Events::Answering Events::putSummary(http::Request& request) {
  NIMBUS_CO_TRY(const events::Summary summary,
                co_await events::putSummary(store_, turns_, sessionOf(request), request.body));
  co_return http::Response::json(summary.toJson());
}

Events::Answering Events::showSummary(http::Request& request) {
  NIMBUS_CO_TRY(const auto filter_key, request.queryParameters().text("filter_key"));
  NIMBUS_CO_TRY(const events::Summary summary,
                co_await events::getSummary(store_, sessionOf(request), filter_key.value_or("")));
  co_return http::Response::json(summary.toJson());
}

// ---- Check and repair

Events::Answering Events::checkSession(http::Request& request) {
  NIMBUS_CO_TRY(const std::vector<events::Issue> issues,
                co_await events::checkSession(store_, sessionOf(request)));
  co_return http::Response::json(R"({"issues":)" + issuesText(issues) + '}');
}

Events::Answering Events::repairSession(http::Request& request) {
  NIMBUS_CO_TRY(const std::vector<events::Issue> found,
                co_await events::repairSession(store_, turns_, sessionOf(request)));
  NIMBUS_CO_TRY(const std::vector<events::Issue> left,
                co_await events::checkSession(store_, sessionOf(request)));
  co_return http::Response::json(R"({"repaired":)" + issuesText(found) + R"(,"issues":)" +
                                 issuesText(left) + '}');
}

// ---- Tracks

Events::Answering Events::listTracks(http::Request& request) {
  NIMBUS_CO_TRY(const std::vector<events::Track> tracks,
                co_await events::listTracks(store_, sessionOf(request)));
  ListText text;
  for (const events::Track& track : tracks) text.add(events::trackText(track));
  co_return http::Response::json(std::move(text).finish(std::nullopt));
}

Events::Answering Events::showTrack(http::Request& request) {
  NIMBUS_CO_TRY(const events::Track track, co_await events::showTrack(store_, logOf(request)));
  co_return http::Response::json(events::trackText(track));
}

Events::Answering Events::putTrack(http::Request& request) {
  NIMBUS_CO_TRY(const events::Track track,
                co_await events::changeTrack(store_, turns_, logOf(request), request.body));
  co_return http::Response::json(events::trackText(track));
}

Events::Answering Events::deleteTrack(http::Request& request) {
  NIMBUS_CO_CHECK(co_await events::removeTrack(store_, turns_, logOf(request)));
  co_return http::Response::noContent();
}

}  // namespace nimbus::gateway
