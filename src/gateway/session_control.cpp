#include "gateway/session_control.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "gateway/api_key.h"
#include "gateway/checksum.h"
#include "http/percent.h"
#include "http/router.h"
#include "session/session_copy.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace nimbus::gateway {
namespace {

constexpr std::array<std::string_view, 4> kVerbs = {"pause", "resume", "drain", "delete"};
constexpr std::array<std::string_view, 4> kSummaries = {
    "Let a session start no further call", "Let a session go on",
    "Let a session take no further call, and wait until it is empty", ""};
constexpr std::size_t kPage = 500;
constexpr std::size_t kKeysShown = 1000;
// Of a document: what is carried, in JSON.
constexpr std::size_t kMostImported = 2 * session::kMostCarried;

struct Bulk {
  std::optional<std::string> prefix;
  bool is_dry_run = false;
};

Result<Bulk> readBulk(std::string_view body) {
  Bulk bulk;
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(body));
  for (const RawMember& member : members) {
    NIMBUS_TRY(const JsonValue value, parseJson(member.value));
    if (member.name == "prefix" && value.string()) {
      bulk.prefix = std::string(*value.string());
    } else if (member.name == "dry_run" && value.boolean()) {
      bulk.is_dry_run = *value.boolean();
    } else {
      return Error(
                 Code::InvalidArgument,
                 fmt::format("\"{}\": only \"prefix\", a text, and \"dry_run\", true or false, go "
                             "here",
                             printable(member.name)))
          .with("field", member.name);
    }
  }
  if (!bulk.prefix) {
    return Error(Code::InvalidArgument, "\"prefix\" is missing; \"\" means all sessions")
        .with("field", std::string("prefix"));
  }
  return bulk;
}

http::Route routeOf(http::Method method, std::string pattern, std::string summary,
                    std::string scope) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Sessions and state";
  route.scope = std::move(scope);
  route.errors = {Code::NotFound, Code::Conflict, Code::Unavailable};
  return route;
}

const std::string kSessions = "/api/v1/functions/{id:name}/sessions";

}  // namespace

Result<std::string> SessionControl::functionOf(const http::Request& request) const {
  if (!find_(request.parameters["id"])) return noFunction(request.parameters["id"]);
  return std::string(request.parameters["id"]);
}

Task<Result<>> SessionControl::carryOut(Verb verb, std::string function_id,
                                        std::string session_key) {
  using Hold = session::QueuedCalls::Hold;
  switch (verb) {
    case Verb::Pause:
      return calls_.hold(std::move(function_id), std::move(session_key), Hold::Paused);
    case Verb::Resume:
      return calls_.hold(std::move(function_id), std::move(session_key), Hold::None);
    case Verb::Drain:
      return calls_.drain(std::move(function_id), std::move(session_key));
    case Verb::Delete:
      break;
  }
  return calls_.remove(std::move(function_id), std::move(session_key));
}

Task<Result<>> SessionControl::carryOutAnywhere(const http::Request& request, Verb verb,
                                                std::string function_id, std::string session_key) {
  Result<> done = co_await carryOut(verb, function_id, session_key);
  if (done) co_return done;
  const auto moved = cluster::movedIn(done.error());
  if (!moved) co_return done;
  Forwarding::Errand errand;
  errand.method = verb == Verb::Delete ? "DELETE" : "POST";
  errand.target = fmt::format("/api/v1/functions/{}/sessions/{}", function_id,
                              http::percentEncode(session_key));
  if (verb != Verb::Delete) {
    errand.target.append("/").append(kVerbs[static_cast<std::size_t>(verb)]);
  }
  NIMBUS_CO_TRY(const auto answer, co_await forwarding_.ask(*moved, request, std::move(errand)));
  if (answer.status < 300) co_return Result<>();
  co_return Error(Code::Unavailable, fmt::format("its node says {}", answer.status));
}

Task<Result<http::Response>> SessionControl::one(http::Request& request, Verb verb) {
  NIMBUS_CO_TRY(const std::string function_id, functionOf(request));
  NIMBUS_CO_TRY(const SessionKey key, SessionKey::parse(request.parameters["session_key"]));
  NIMBUS_CO_CHECK(co_await carryOut(verb, function_id, key.text()));
  NIMBUS_CO_TRY(const session::SessionView view, co_await calls_.show(function_id, key.text()));
  std::string text = R"({"session_key":)";
  appendJsonString(text, view.session_key);
  fmt::format_to(std::back_inserter(text),
                 R"(,"status":"{}","paused":{},"draining":{},"queue_length":{}}})",
                 view.paused ? "paused" : (view.running ? "running" : "idle"),
                 view.record.is_paused, view.record.is_draining, view.waiting);
  co_return http::Response::json(std::move(text));
}

Task<Result<http::Response>> SessionControl::many(http::Request& request, Verb verb) {
  NIMBUS_CO_TRY(const std::string function_id, functionOf(request));
  NIMBUS_CO_TRY(const Bulk bulk, readBulk(request.body));
  std::string keys;
  std::string after;
  std::size_t matched = 0;
  std::size_t changed = 0;
  std::size_t failed = 0;
  bool more = true;
  while (more) {
    NIMBUS_CO_TRY(const store::DirectoryPage page,
                  co_await store_.readDirectory(session::sessionDirectory(function_id), after,
                                                *bulk.prefix, kPage));
    for (const store::DirectoryEntry& entry : page.items) {
      after = entry.key;
      if (verb != Verb::Delete || bulk.is_dry_run) {
        const auto shown = co_await calls_.show(function_id, entry.key);  // or it is elsewhere
        if (!shown && shown.error().code() == Code::NotFound) continue;   // its listing outlived it
      }
      ++matched;
      if (bulk.is_dry_run) {
        if (matched > kKeysShown) continue;
        if (matched > 1) keys += ',';
        appendJsonString(keys, entry.key);
        continue;
      }
      const Result<> done = co_await carryOutAnywhere(request, verb, function_id, entry.key);
      ++(done ? changed : failed);
    }
    more = page.more;
  }
  std::string text = fmt::format(R"({{"matched":{},"changed":{},"failed":{},"dry_run":{})", matched,
                                 changed, failed, bulk.is_dry_run);
  if (bulk.is_dry_run) text.append(R"(,"keys":[)").append(keys).append("]");
  text += '}';
  co_return http::Response::json(std::move(text));
}

Task<Result<http::Response>> SessionControl::exportSession(http::Request& request) {
  NIMBUS_CO_TRY(const std::string function_id, functionOf(request));
  NIMBUS_CO_TRY(const SessionKey key, SessionKey::parse(request.parameters["session_key"]));
  NIMBUS_CO_TRY(const session::SessionView view, co_await calls_.show(function_id, key.text()));
  NIMBUS_CO_TRY(session::SessionCopy copy,
                co_await session::copySession(store_, function_id, key.text()));
  copy.next_seq = view.next_number;  // the owner knows better than the store
  co_return http::Response::json(copy.toJson(checksumOf(copy.content())));
}

Task<Result<http::Response>> SessionControl::importSession(http::Request& request) {
  NIMBUS_CO_TRY(const std::string function_id, functionOf(request));
  NIMBUS_CO_TRY(session::SessionCopy::Parsed parsed, session::SessionCopy::fromJson(request.body));
  if (parsed.checksum != checksumOf(parsed.copy.content())) {
    co_return Error(Code::Unprocessable, "the checksum does not fit: the document was changed");
  }
  NIMBUS_CO_TRY(const auto other, request.queryParameters().text("session_key"));
  if (other) parsed.copy.session_key = *other;
  NIMBUS_CO_CHECK(checkText("session key", parsed.copy.session_key));
  parsed.copy.function_id = function_id;
  const std::size_t values = parsed.copy.state.size();
  const std::size_t waiting = parsed.copy.queue.size();
  const std::size_t events = parsed.copy.events ? parsed.copy.events->events.size() : 0;
  std::string text = R"({"session_key":)";
  appendJsonString(text, parsed.copy.session_key);
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  NIMBUS_CO_CHECK(co_await calls_.importSession(std::move(parsed.copy), std::string(request.id)));
  fmt::format_to(std::back_inserter(text), R"(,"state_keys":{},"queue_length":{},"events":{}}})",
                 values, waiting, events);
  co_return http::Response::json(std::move(text), 201);
}

void SessionControl::addVerb(http::Router& router, Verb verb) {
  const auto index = static_cast<std::size_t>(verb);
  http::Route route =
      routeOf(http::Method::Post, fmt::format("{}/{{session_key}}/{}", kSessions, kVerbs[index]),
              std::string(kSummaries[index]), "sessions:write");
  route.handler = [this, verb](http::Request& request) { return one(request, verb); };
  route.answers = {{200, "How the session stands.", R"({"type":"object"})"}};
  router.add(std::move(route));
}

void SessionControl::addBulkVerb(http::Router& router, Verb verb) {
  const std::string_view name = kVerbs[static_cast<std::size_t>(verb)];
  http::Route route = routeOf(http::Method::Post, fmt::format("{}:{}", kSessions, name),
                              fmt::format("{} all sessions whose keys begin with a prefix", name),
                              "sessions:write");
  route.handler = [this, verb](http::Request& request) { return many(request, verb); };
  route.body = {{"With `dry_run` nothing is changed, and the keys are shown, a thousand at most.",
                 R"({"type":"object","required":["prefix"],"properties":{"prefix":)"
                 R"({"type":"string"},"dry_run":{"type":"boolean"}}})"}};
  route.answers = {{200, "How many there were.",
                    R"({"type":"object","properties":{"matched":{"type":"integer"},)"
                    R"("changed":{"type":"integer"},"failed":{"type":"integer"},)"
                    R"("dry_run":{"type":"boolean"},"keys":{"type":"array"}}})"}};
  router.add(std::move(route));
}

void SessionControl::addRoutes(http::Router& router) {
  using http::Method;
  for (const Verb verb : {Verb::Pause, Verb::Resume, Verb::Drain}) addVerb(router, verb);
  for (const Verb verb : {Verb::Pause, Verb::Resume, Verb::Drain, Verb::Delete}) {
    addBulkVerb(router, verb);
  }

  http::Route route = routeOf(Method::Get, kSessions + "/{session_key}/export",
                              "A session as a document", "sessions:read");
  route.handler = [this](http::Request& request) { return exportSession(request); };
  route.answers = {
      {200, "State, events and waiting calls, with a checksum.", R"({"type":"object"})"}};
  route.errors.push_back(Code::TooLarge);
  router.add(std::move(route));

  route = routeOf(Method::Post, kSessions + ":import", "Make a session of such a document",
                  "sessions:write");
  route.description =
      "409 if there is a session of that key. Events are numbered anew, without gaps. The document "
      "may "
      "be longer than other bodies.";
  route.handler = [this](http::Request& request) { return importSession(request); };
  route.query = {{"session_key", "Instead of the document's own."}};
  route.body = {{"What export gave.", R"({"type":"object"})"}};
  route.max_body_bytes = kMostImported;
  route.answers = {{201, "What was imported.", R"({"type":"object"})"}};
  route.errors.push_back(Code::Unprocessable);
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
