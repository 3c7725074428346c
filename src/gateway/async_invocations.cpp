#include "gateway/async_invocations.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "gateway/list_text.h"
#include "gateway/principal.h"
#include "http/problem.h"
#include "http/router.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <utility>

namespace nimbus::gateway {
namespace {

using session::Invocation;
using session::InvocationRecord;
using Status = InvocationRecord::Status;

constexpr std::size_t kListed = 100;
constexpr std::int64_t kLongestWaitMs = 300'000;

constexpr const char* kSchema =
    R"({"type":"object","properties":{"request_id":{"type":"string"},)"
    R"("function_id":{"type":"string"},"session_key":{"type":["string","null"]},)"
    R"("session_seq":{"type":["integer","null"]},"status":{"type":"string","enum":["queued",)"
    R"("running","retrying","succeeded","failed","cancelled","parked"]},)"
    R"("attempts":{"type":"integer"},"status_code":{"type":"integer"},"body":{},)"
    R"("error":{"type":"object"},"created_at":{"type":"string"},"due_at":{"type":"string"},)"
    R"("started_at":{"type":["string","null"]},"finished_at":{"type":["string","null"]}}})";

void appendTime(std::string& text, std::string_view name, const std::optional<Timestamp>& time) {
  fmt::format_to(std::back_inserter(text), R"(,"{}":)", name);
  if (time) {
    appendJsonString(text, timeText(*time));
  } else {
    text += "null";
  }
}

// That an error would have been answered with.
int statusOfError(const std::string& error) {
  const Result<JsonValue> parsed = parseJson(error);
  const auto code = parsed ? session::codeNamed(parsed->string("code").value_or("")) : std::nullopt;
  return http::statusOf(code.value_or(Code::Internal));
}

std::string invocationText(const Invocation& invocation) {
  const InvocationRecord& record = invocation.record;
  std::string text = R"({"request_id":)";
  appendJsonString(text, invocation.request_id);
  text += R"(,"function_id":)";
  appendJsonString(text, record.function_id);
  text += R"(,"session_key":)";
  if (record.session_key) {
    appendJsonString(text, *record.session_key);
  } else {
    text += "null";
  }
  text += R"(,"session_seq":)";
  text += record.seq != 0 ? fmt::format_int(record.seq).str() : "null";
  fmt::format_to(std::back_inserter(text), R"(,"status":"{}","attempts":{})",
                 session::statusName(record.status), record.attempts);
  if (!record.error.empty()) {
    fmt::format_to(std::back_inserter(text), R"(,"status_code":{},"error":{})",
                   statusOfError(record.error), record.error);
  } else if (record.status_code != 0) {
    fmt::format_to(std::back_inserter(text), R"(,"status_code":{},"body":{})", record.status_code,
                   record.body.empty() ? "null" : record.body);
  }
  appendTime(text, "created_at", record.created_at);
  if (record.due_at) appendTime(text, "due_at", record.due_at);
  appendTime(text, "started_at", record.started_at);
  appendTime(text, "finished_at", record.finished_at);
  text += '}';
  return text;
}

Result<std::string> requestIdOf(const http::Request& request) {
  std::string id(request.parameters["request_id"]);
  NIMBUS_CHECK(checkText("request id", id));
  return id;
}

// What the principal may not call, or not see the session of, is not its to ask about.
Result<> checkReach(const http::Request& request, const InvocationRecord& record) {
  NIMBUS_CHECK(checkInvoke(request, record.function_id));
  return checkSession(request, record.session_key);
}

http::Route routeOf(http::Method method, std::string pattern, std::string summary) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Asynchronous calls";
  route.scope = "invoke";
  route.checks_reach = true;
  route.errors = {Code::NotFound, Code::Unavailable};
  return route;
}

}  // namespace

Task<Result<http::Response>> AsyncInvocations::show(http::Request& request) {
  NIMBUS_CO_TRY(std::string id, requestIdOf(request));
  NIMBUS_CO_TRY(const auto wait, request.queryParameters().integer(
                                     "wait_ms", http::IntegerRange{0, kLongestWaitMs}));
  NIMBUS_CO_TRY(const Invocation invocation,
                wait ? co_await calls_.awaitInvocation(std::move(id), Millis(*wait))
                     : co_await calls_.invocation(std::move(id)));
  NIMBUS_CO_CHECK(checkReach(request, invocation.record));
  co_return http::Response::json(invocationText(invocation));
}

Task<Result<http::Response>> AsyncInvocations::list(http::Request& request) {
  const http::Query query = request.queryParameters();
  session::InvocationFilter filter;
  NIMBUS_CO_TRY(filter.function_id, query.text("function_id"));
  NIMBUS_CO_TRY(filter.session_key, query.text("session_key"));
  NIMBUS_CO_TRY(const auto status, query.text("status"));
  if (status) {
    filter.status = session::statusNamed(*status);
    if (!filter.status) {
      co_return Error(Code::InvalidArgument,
                      "\"status\" is queued, running, retrying, succeeded, failed, cancelled or "
                      "parked");
    }
  }
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  NIMBUS_CO_TRY(const session::InvocationPage page,
                co_await calls_.invocations(std::move(filter), std::move(after), limit));
  ListText text;
  for (const Invocation& one : page.items) {
    if (checkReach(request, one.record)) text.add(invocationText(one));
  }
  co_return http::Response::json(std::move(text).finish(page.next));
}

Task<Result<http::Response>> AsyncInvocations::cancel(http::Request& request) {
  NIMBUS_CO_TRY(std::string id, requestIdOf(request));
  NIMBUS_CO_TRY(const Invocation known, co_await calls_.invocation(id));
  NIMBUS_CO_CHECK(checkReach(request, known.record));
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  NIMBUS_CO_TRY(const Invocation invocation, co_await calls_.cancel(std::move(id)));
  const bool runs = invocation.record.status == Status::Running;
  co_return http::Response::json(invocationText(invocation), runs ? 202 : 200);
}

Task<Result<http::Response>> AsyncInvocations::replay(http::Request& request) {
  NIMBUS_CO_TRY(std::string id, requestIdOf(request));
  NIMBUS_CO_TRY(const Invocation known, co_await calls_.invocation(id));
  NIMBUS_CO_CHECK(checkReach(request, known.record));
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  NIMBUS_CO_TRY(const Invocation invocation, co_await calls_.replay(std::move(id)));
  co_return http::Response::json(invocationText(invocation), 202);
}

void AsyncInvocations::addRoutes(http::Router& router) {
  using http::Method;
  using http::Request;
  const std::string all = "/api/v1/invocations";
  const std::string one = all + "/{request_id}";

  http::Route route = routeOf(Method::Get, all, "Asynchronous calls");
  route.description = "By request id. A page may be short, or empty, and have a `next_cursor`.";
  route.handler = [this](Request& request) { return list(request); };
  route.query = {{"function_id"},
                 {"session_key"},
                 {"status"},
                 {"limit", "", R"({"type":"integer"})"},
                 {"cursor"}};
  route.answers = {{200, "Those that are known.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, one, "What became of an asynchronous call");
  route.handler = [this](Request& request) { return show(request); };
  route.query = {{"wait_ms", "Waits so long for its end.", R"({"type":"integer"})"}};
  route.answers = {{200, "The call; `body` or `error` when it has ended.", kSchema}};
  router.add(std::move(route));

  route = routeOf(Method::Delete, one, "Cancel an asynchronous call");
  route.description =
      "One that waits never runs. One that runs is told, and ended after five seconds.";
  route.handler = [this](Request& request) { return cancel(request); };
  route.answers = {{200, "It will not run.", kSchema}, {202, "It was told to end.", kSchema}};
  route.errors.push_back(Code::Conflict);
  router.add(std::move(route));

  route = routeOf(Method::Post, one + "/replay", "Run a call again that was given up");
  route.handler = [this](Request& request) { return replay(request); };
  route.answers = {{202, "It stands in the line of its session again.", kSchema}};
  route.errors.push_back(Code::Conflict);
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
