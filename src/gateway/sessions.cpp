#include "gateway/sessions.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "gateway/list_text.h"
#include "gateway/principal.h"
#include "http/percent.h"
#include "http/router.h"
#include "state/glob.h"
#include "state/stored.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <charconv>
#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

using Kind = state::Operation::Kind;

constexpr std::size_t kSessionsListed = 20;
constexpr std::size_t kKeysListed = 100;

void appendTime(std::string& text, std::optional<Timestamp> time) {
  if (time) {
    appendJsonString(text, timeText(*time));
  } else {
    text += "null";
  }
}

std::string_view statusOf(const session::SessionView& view) {
  if (view.paused) return "paused";
  return view.running ? "running" : "idle";
}

// `"17"` as an ETag has it.
Result<std::optional<state::Version>> versionOf(const http::Request& request,
                                                std::string_view header) {
  const std::string_view text = request.header(header);
  if (text.empty()) return std::optional<state::Version>();
  state::Version version = 0;
  const bool quoted = text.size() > 2 && text.front() == '"' && text.back() == '"';
  const std::string_view digits = quoted ? text.substr(1, text.size() - 2) : text;
  const char* const end = digits.data() + digits.size();
  const auto [stopped, failed] = std::from_chars(digits.data(), end, version);
  if (failed != std::errc() || stopped != end || version == 0) {
    return Error(Code::InvalidArgument,
                 fmt::format("{}: this must be a version in quotes, such as \"3\"", header));
  }
  return std::optional(version);
}

std::string keyText(const store::Record& record, Timestamp now) {
  std::string text = R"({"key":)";
  appendJsonString(text, record.key);
  double ttl = -1;
  if (record.expires_at) ttl = static_cast<double>((*record.expires_at - now).count()) / 1000;
  fmt::format_to(std::back_inserter(text), R"(,"size":{},"ttl":{},"version":{},"updated_at":)",
                 record.size, ttl, record.version);
  appendTime(text, record.updated_at);
  text += '}';
  return text;
}

http::Response withVersion(http::Response response, state::Version version) {
  response.header("ETag", fmt::format("\"{}\"", version));
  return response;
}

http::Route routeOf(http::Method method, std::string pattern, std::string summary,
                    std::string scope) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Sessions and state";
  route.scope = std::move(scope);
  route.errors = {Code::NotFound, Code::Unavailable};
  return route;
}

}  // namespace

store::Partition Sessions::Target::partition() const {
  return session_key ? session::sessionPartition(function->id, *session_key)
                     : session::functionStatePartition(function->id);
}

Result<session::FunctionPtr> Sessions::functionOf(const http::Request& request) const {
  session::FunctionPtr function = find_(request.parameters["id"]);
  if (!function) return noFunction(request.parameters["id"]);
  return function;
}

Result<Sessions::Target> Sessions::targetOf(const http::Request& request) const {
  Target target;
  NIMBUS_TRY(target.function, functionOf(request));
  if (request.parameters.has("session_key")) {
    NIMBUS_TRY(const SessionKey key, SessionKey::parse(request.parameters["session_key"]));
    target.session_key = key.text();
  }
  if (request.parameters.has("key")) {
    target.key = std::string(request.parameters["key"]);
    NIMBUS_CHECK(state::checkKey(target.key));
  }
  return target;
}

// ---- Sessions

std::string Sessions::sessionText(const session::FunctionSpec& function,
                                  const session::SessionView& view) const {
  const session::SessionRecord& record = view.record;
  std::string text = R"({"session_key":)";
  appendJsonString(text, view.session_key);
  text += R"(,"function_id":)";
  appendJsonString(text, function.id);
  text += R"(,"vm_id":)";
  if (record.instance.empty()) {
    text += "null";
  } else {
    appendJsonString(text, record.instance);
  }
  text += R"(,"node_id":)";
  appendJsonString(text, record.owner.empty() ? node_id_ : cluster::idOfKey(record.owner));
  text += R"(,"created_at":)";
  appendTime(text, record.created_at);
  text += R"(,"last_access":)";
  appendTime(text, record.last_access);
  text += R"(,"expires_at":)";
  appendTime(text, record.expiresAt());
  text += R"(,"state_keys":[)";
  for (std::size_t i = 0; i < view.state_keys.size(); ++i) {
    if (i != 0) text += ',';
    appendJsonString(text, view.state_keys[i]);
  }
  fmt::format_to(std::back_inserter(text),
                 R"(],"total_size":{},"queue_length":{},"status":"{}","next_seq":{}}})",
                 view.total_size, view.waiting, statusOf(view), view.next_number);
  return text;
}

Task<std::string> Sessions::shown(const http::Request& request,
                                  const session::FunctionSpec& function,
                                  const session::SessionView& view) {
  const auto owner = forwarding_.ownerElsewhere(view.record.owner, function.id, view.session_key);
  if (owner) {
    Forwarding::Errand errand;
    errand.method = "GET";
    errand.target = fmt::format("/api/v1/functions/{}/sessions/{}", function.id,
                                http::percentEncode(view.session_key));
    auto answer = co_await forwarding_.ask(*owner, request, std::move(errand));
    if (answer && answer->status == 200) co_return std::move(answer->body);
  }
  co_return sessionText(function, view);
}

Task<Result<http::Response>> Sessions::listSessions(http::Request& request) {
  NIMBUS_CO_TRY(const session::FunctionPtr function, functionOf(request));
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kSessionsListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  NIMBUS_CO_TRY(const session::SessionPage page,
                co_await calls_.list(function->id, std::move(after), limit,
                                     principalOf(request).session_prefix.value_or("")));
  ListText text;
  for (const session::SessionView& view : page.items) {
    text.add(co_await shown(request, *function, view));
  }
  co_return http::Response::json(std::move(text).finish(page.next, "sessions"));
}

Task<Result<http::Response>> Sessions::showSession(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  NIMBUS_CO_TRY(const session::SessionView view,
                co_await calls_.show(target.function->id, *target.session_key));
  co_return http::Response::json(sessionText(*target.function, view));
}

Task<Result<http::Response>> Sessions::deleteSession(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  NIMBUS_CO_CHECK(co_await calls_.remove(target.function->id, *target.session_key));
  co_return http::Response::noContent();
}

// ---- State

Task<Result<>> Sessions::mustExist(Target target) {
  if (!target.session_key) co_return Result<>();
  NIMBUS_CO_TRY(const auto record,
                co_await store::getRecord(store_, target.partition(), session::kSessionSpace,
                                          session::kSessionRecord));
  if (record) co_return Result<>();
  co_return Error(Code::NotFound,
                  fmt::format("there is no session \"{}\"", printable(*target.session_key)));
}

Task<Result<state::Answer>> Sessions::apply(Target target, state::Operation operation,
                                            std::string request_id) {
  const Kind kind = operation.kind;
  const SteadyTime begun = calls_.now();
  Result<state::Answer> answer =
      co_await carryOut(target, std::move(operation), std::move(request_id));
  count(target, kind, answer ? std::nullopt : std::optional(answer.error().code()), begun);
  co_return answer;
}

void Sessions::count(const Target& target, Kind kind, std::optional<Code> failed,
                     SteadyTime begun) const {
  const auto scope = target.session_key ? state::Scope::Session : state::Scope::Function;
  target.function->metrics->operation(kind, scope, failed, calls_.now() - begun);
}

Task<Result<state::Answer>> Sessions::carryOut(Target target, state::Operation operation,
                                               std::string request_id) {
  if (!target.session_key) {
    co_return co_await state::applyInStore(store_, target.partition(), std::move(operation),
                                           target.function->rules);
  }
  session::CallPtr call(new session::Call);
  call->function = target.function;
  call->request_id = std::move(request_id);
  call->session_key = target.session_key;
  call->operation = std::move(operation);
  NIMBUS_CO_CHECK(calls_.submit(call));
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await call->settled.wait();
  if (call->outcome.error) co_return *call->outcome.error;
  co_return std::move(call->outcome.answer);
}

Task<Result<http::Response>> Sessions::listState(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kKeysListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  NIMBUS_CO_TRY(const auto pattern, query.text("pattern"));
  NIMBUS_CO_CHECK(co_await mustExist(target));
  std::string keys;
  std::size_t listed = 0;
  std::optional<std::string> next;
  std::uint64_t total = 0;
  bool more = true;
  while (more && !next) {
    store::query::ScanRecords scan;
    scan.space = state::kSpace;
    scan.after = after;
    scan.limit = 1000;
    scan.values = store::Values::Omit;
    std::vector<store::Query> queries;
    queries.emplace_back(std::move(scan));
    queries.emplace_back(store::query::GetUsage{state::kSpace});
    NIMBUS_CO_TRY(const auto answers, co_await store_.read(target.partition(), std::move(queries)));
    const auto& page = std::get<store::RecordPage>(answers[0]);
    total = std::get<store::Usage>(answers[1]).bytes;
    for (const store::Record& record : page.items) {
      if (pattern && !state::matches(*pattern, record.key)) continue;
      if (listed == limit) {
        next = after;
        break;
      }
      if (listed != 0) keys += ',';
      keys += keyText(record, store_.now());
      after = record.key;
      ++listed;
    }
    more = page.more;
    if (!next && more) after = page.items.back().key;
  }
  std::string text = R"({"session_key":)";
  if (target.session_key) {
    appendJsonString(text, *target.session_key);
  } else {
    text += "null";
  }
  fmt::format_to(std::back_inserter(text), R"(,"keys":[{}],"total_size":{},)", keys, total);
  // The rest is as in every list.
  text += std::move(ListText()).finish(next).substr(std::string_view(R"({"items":[],)").size());
  co_return http::Response::json(std::move(text));
}

Task<Result<http::Response>> Sessions::getState(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  const SteadyTime begun = calls_.now();
  auto found = co_await store::getRecord(store_, target.partition(), state::kSpace, target.key);
  count(target, Kind::GetWithVersion, found ? std::nullopt : std::optional(found.error().code()),
        begun);
  NIMBUS_CO_TRY(auto record, std::move(found));
  if (!record) co_return state::missing(target.key);
  const state::Version version = record->version;
  co_return withVersion(http::Response::json(std::move(record->value)), version);
}

Task<Result<http::Response>> Sessions::putState(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  state::Operation operation;
  operation.kind = Kind::SetWithVersion;
  operation.key = target.key;
  operation.values.emplace_back(trimJson(request.body));
  NIMBUS_CO_TRY(operation.version, versionOf(request, "If-Match"));
  if (request.header("If-None-Match") == "*") {
    if (operation.version) {
      co_return Error(Code::InvalidArgument, "If-Match and If-None-Match cannot both hold");
    }
    operation.version = 0;
  } else if (!request.header("If-None-Match").empty()) {
    co_return Error(Code::InvalidArgument, "If-None-Match can only be *");
  }
  NIMBUS_CO_TRY(operation.ttl, request.queryParameters().number("ttl"));
  NIMBUS_CO_TRY(const auto before,
                co_await store::getRecord(store_, target.partition(), state::kSpace, target.key));
  NIMBUS_CO_TRY(const state::Answer answer,
                co_await apply(target, std::move(operation), std::string(request.id)));
  co_return withVersion(
      http::Response::json(fmt::format(R"({{"version":{}}})", answer.version), before ? 200 : 201),
      answer.version);
}

Task<Result<http::Response>> Sessions::incrState(http::Request& request) {
  NIMBUS_CO_TRY(const Target target, targetOf(request));
  state::Operation operation;
  operation.kind = Kind::Incr;
  operation.key = target.key;
  if (!trimJson(request.body).empty()) {
    NIMBUS_CO_TRY(const auto members, splitObject(request.body));
    for (const RawMember& member : members) {
      NIMBUS_CO_TRY(const JsonValue value, parseJson(member.value));
      const auto delta = value.integer();
      if (member.name != "delta" || !delta) {
        co_return Error(Code::InvalidArgument, "only \"delta\", a whole number, goes here");
      }
      operation.delta = *delta;
    }
  }
  NIMBUS_CO_TRY(const state::Answer answer,
                co_await apply(target, std::move(operation), std::string(request.id)));
  co_return withVersion(http::Response::json(fmt::format(R"({{"value":{},"version":{}}})",
                                                         answer.number, answer.version)),
                        answer.version);
}

Task<Result<http::Response>> Sessions::deleteState(http::Request& request) {
  NIMBUS_CO_TRY(Target target, targetOf(request));
  NIMBUS_CO_TRY(const auto key, request.queryParameters().text("key"));
  NIMBUS_CO_CHECK(co_await mustExist(target));
  state::Operation operation;
  operation.kind = key ? Kind::Delete : Kind::Clear;
  operation.key = key.value_or("");
  NIMBUS_CO_TRY(const state::Answer answer,
                co_await apply(target, std::move(operation), std::string(request.id)));
  if (key && !answer.flag) co_return state::missing(*key);
  co_return http::Response::noContent();
}

// ---- Routes

void Sessions::addStateRoutes(http::Router& router, const std::string& base,
                              const std::string& what) {
  using http::Method;
  using http::Request;
  http::Route route = routeOf(Method::Get, base, "Keys of " + what, "sessions:read");
  route.handler = [this](Request& request) { return listState(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}, {"pattern"}};
  route.answers = {{200, "Keys with sizes, versions and times to live.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, base + "/{key}", "A value of " + what, "sessions:read");
  route.handler = [this](Request& request) { return getState(request); };
  route.answers = {{200, "The value as it was stored; its version is the ETag."}};
  router.add(std::move(route));

  route = routeOf(Method::Put, base + "/{key}", "Set a value of " + what, "sessions:write");
  route.description = "`If-Match: \"3\"` replaces only that version, `If-None-Match: *` creates.";
  route.handler = [this](Request& request) { return putState(request); };
  route.query = {{"ttl", "Seconds; -1: it does not expire.", R"({"type":"number"})"}};
  route.body = {{"Any JSON."}};
  route.answers = {{200, "Replaced."}, {201, "Created."}};
  route.errors = {Code::VersionConflict, Code::QuotaExceeded, Code::TooLarge};
  router.add(std::move(route));

  route =
      routeOf(Method::Post, base + "/{key}/incr", "Add to a number of " + what, "sessions:write");
  route.handler = [this](Request& request) { return incrState(request); };
  route.body = {{"", R"({"type":"object","properties":{"delta":{"type":"integer"}}})"}};
  route.answers = {{200, "The new value and version."}};
  router.add(std::move(route));

  route = routeOf(Method::Delete, base, "Remove a value of " + what + ", or all", "sessions:write");
  route.handler = [this](Request& request) { return deleteState(request); };
  route.query = {{"key", "Only this one."}};
  route.answers = {{204, "Gone."}};
  router.add(std::move(route));
}

void Sessions::addRoutes(http::Router& router) {
  using http::Method;
  using http::Request;
  const std::string sessions = "/api/v1/functions/{id:name}/sessions";
  http::Route route = routeOf(Method::Get, sessions, "Sessions of a function", "sessions:read");
  route.handler = [this](Request& request) { return listSessions(request); };
  route.checks_reach = true;
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "By key.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, sessions + "/{session_key}", "A session", "sessions:read");
  route.handler = [this](Request& request) { return showSession(request); };
  route.answers = {{200, "The session.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Delete, sessions + "/{session_key}",
                  "Remove a session, its waiting calls and its state", "sessions:write");
  route.handler = [this](Request& request) { return deleteSession(request); };
  route.answers = {{204, "Gone."}};
  router.add(std::move(route));

  addStateRoutes(router, "/api/v1/functions/{id:name}/state/{session_key}", "a session");
  addStateRoutes(router, "/api/v1/functions/{id:name}/function-state", "a function");
}

}  // namespace nimbus::gateway
