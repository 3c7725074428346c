#include "gateway/functions.h"

#include "base/json.h"
#include "base/json_text.h"
#include "function/pack.h"
#include "gateway/invocations.h"
#include "gateway/list_text.h"
#include "gateway/log_stream.h"
#include "gateway/principal.h"
#include "http/router.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::size_t kListed = 100;

Result<FunctionId> idOf(const http::Request& request) {
  return FunctionId::parse(request.parameters["id"]);
}

// The line after which a client that comes back goes on.
Result<std::uint64_t> lastEventOf(const http::Request& request) {
  const std::string_view text = request.header("Last-Event-ID");
  if (text.empty()) return 0;
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  if (failed != std::errc() || stopped != end) {
    return Error(Code::InvalidArgument, "Last-Event-ID must be the number of a line");
  }
  return number;
}

http::Route routeOf(http::Method method, std::string pattern, std::string operation_id,
                    std::string summary, std::string scope) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.operation_id = std::move(operation_id);
  route.summary = std::move(summary);
  route.tag = "Functions";
  route.scope = std::move(scope);
  return route;
}

}  // namespace

Task<Result<http::Response>> Functions::put(http::Request& request) {
  NIMBUS_CO_TRY(FunctionId id, idOf(request));
  NIMBUS_CO_TRY(const function::Put done, co_await deployments_.put(std::move(id), request.body));
  const bool created = done.change == function::Put::Change::Created;
  co_return http::Response::json(function::toJson(done.definition), created ? 201 : 200);
}

Task<Result<http::Response>> Functions::list(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(const std::string after, afterOf(query));
  const auto page = catalog_.list(limit, after);
  ListText text;
  std::optional<std::string> next;
  for (const auto& deployed : page.items) text.add(function::toJson(deployed->definition));
  if (page.more) next = page.items.back()->definition.id.text();
  co_return http::Response::json(std::move(text).finish(next));
}

Task<Result<http::Response>> Functions::show(http::Request& request) {
  const auto deployed = catalog_.find(request.parameters["id"]);
  if (!deployed) co_return noFunction(request.parameters["id"]);
  co_return http::Response::json(function::toJson(deployed->definition));
}

Task<Result<http::Response>> Functions::remove(http::Request& request) {
  NIMBUS_CO_TRY(FunctionId id, idOf(request));
  NIMBUS_CO_CHECK(co_await deployments_.remove(std::move(id)));
  co_return http::Response::noContent();
}

Task<Result<http::Response>> Functions::versions(http::Request& request) {
  NIMBUS_CO_TRY(FunctionId id, idOf(request));
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(const std::string after, afterOf(query));
  std::optional<std::uint64_t> before;
  if (!after.empty()) before = std::strtoull(after.c_str(), nullptr, 10);
  NIMBUS_CO_TRY(const auto page, co_await catalog_.versions(std::move(id), limit, before));
  ListText text;
  std::optional<std::string> next;
  for (const function::VersionInfo& version : page.items) text.add(function::toJson(version));
  if (page.more) next = std::to_string(page.items.back().version);
  co_return http::Response::json(std::move(text).finish(next));
}

Task<Result<http::Response>> Functions::rollback(http::Request& request) {
  NIMBUS_CO_TRY(FunctionId id, idOf(request));
  NIMBUS_CO_TRY(const auto members, splitObject(request.body));
  std::optional<std::int64_t> version;
  for (const RawMember& member : members) {
    if (member.name != "version") {
      co_return Error(Code::InvalidArgument,
                      fmt::format("there is no \"{}\" here, only \"version\"", member.name));
    }
    NIMBUS_CO_TRY(const JsonValue value, parseJson(member.value));
    version = value.integer();
  }
  if (!version || *version < 1) {
    co_return Error(Code::InvalidArgument, "\"version\" must be the number of a version");
  }
  NIMBUS_CO_TRY(
      const function::Definition definition,
      co_await deployments_.rollback(std::move(id), static_cast<std::uint64_t>(*version)));
  co_return http::Response::json(function::toJson(definition));
}

Task<Result<http::Response>> Functions::logs(http::Request& request) {
  NIMBUS_CO_CHECK(checkAllSessions(request));  // lines do not tell of which they are
  const std::string_view id = request.parameters["id"];
  if (!catalog_.find(id)) co_return noFunction(id);
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(const bool follows, query.flag("follow"));
  if (follows) {
    NIMBUS_CO_TRY(const std::uint64_t last, lastEventOf(request));
    auto log = calls_.logOf(id);
    const std::uint64_t newest = log->lastNumber();
    // A number that none has had yet is from before a restart.
    const bool resumes = last != 0 && last <= newest;
    const std::uint64_t from = resumes ? last : newest - std::min<std::uint64_t>(newest, limit);
    co_return followLog(std::move(log), from, co_await boost::asio::this_coro::executor);
  }
  NIMBUS_CO_TRY(const std::string after, afterOf(query));
  const std::uint64_t before = after.empty() ? 0 : std::strtoull(after.c_str(), nullptr, 10);
  const std::vector<session::LogLine> lines = calls_.logOf(id)->newest(limit + 1, before);
  ListText text;
  std::optional<std::string> next;
  for (std::size_t i = 0; i < lines.size() && i < limit; ++i) text.add(lineText(lines[i]));
  if (lines.size() > limit) next = std::to_string(lines[limit - 1].number);
  co_return http::Response::json(std::move(text).finish(next));
}

// What was said of it, and its code: a body that makes the same function elsewhere.
Task<Result<http::Response>> Functions::exportOne(http::Request& request) {
  const auto deployed = catalog_.find(request.parameters["id"]);
  if (!deployed) co_return noFunction(request.parameters["id"]);
  const function::Definition& definition = deployed->definition;
  NIMBUS_CO_TRY(const function::Bundle code,
                co_await catalog_.code(definition.id, definition.code_hash));
  NIMBUS_CO_TRY(const std::string archive, function::packBase64(code));
  std::string text = function::settingsJson(definition);
  text.pop_back();
  if (text.size() > 1) text += ',';
  text.append(R"("archive_base64":")").append(archive).append(R"("})");
  co_return http::Response::json(std::move(text));
}

void Functions::addRoutes(http::Router& router) {
  using http::Method;
  using http::Request;
  const std::string one = "/api/v1/functions/{id:name}";
  router.addSchema("Function", R"({"type":"object","properties":{"id":{"type":"string"},)"
                               R"("runtime":{"type":"string","enum":["python","node","native",)"
                               R"("exec"]},"handler":{"type":"string"},"version":{"type":)"
                               R"("integer"},"state_config":{"type":"object"},"created_at":)"
                               R"({"type":"string","format":"date-time"},"updated_at":{"type":)"
                               R"("string","format":"date-time"}}})");
  const std::string function = R"({"$ref":"#/components/schemas/Function"})";

  http::Route route = routeOf(Method::Put, one, "putFunction", "Deploy a function, or change it",
                              "functions:write");
  route.description =
      "What is left out stays as it is. Other code, another runtime or handler makes a new "
      "version. "
      "Code that does not load is refused.";
  route.handler = [this](Request& request) { return put(request); };
  route.body = {{"`files` or `archive_base64`, and settings.", R"({"type":"object"})"}};
  route.answers = {{200, "The function.", function}, {201, "The new function.", function}};
  route.errors = {Code::Unprocessable, Code::Conflict, Code::TooLarge};
  router.add(std::move(route));

  route = routeOf(Method::Get, "/api/v1/functions", "listFunctions", "Functions", "functions:read");
  route.handler = [this](Request& request) { return list(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "A page of functions.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, one, "showFunction", "A function", "functions:read");
  route.handler = [this](Request& request) { return show(request); };
  route.answers = {{200, "The function.", function}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));

  route = routeOf(Method::Delete, one, "deleteFunction",
                  "Remove a function, its sessions and their state", "functions:write");
  route.handler = [this](Request& request) { return remove(request); };
  route.answers = {{204, "It is gone."}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));

  route = routeOf(Method::Get, one + "/export", "exportFunction", "A function with its code",
                  "functions:read");
  route.handler = [this](Request& request) { return exportOne(request); };
  route.answers = {{200, "A body that makes the same function elsewhere.", R"({"type":"object"})"}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));

  route = routeOf(Method::Get, one + "/versions", "listVersions", "Versions of a function",
                  "functions:read");
  route.handler = [this](Request& request) { return versions(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "Newest first.", R"({"type":"object"})"}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));

  route = routeOf(Method::Post, one + "/rollback", "rollbackFunction",
                  "Make an earlier version current", "functions:write");
  route.handler = [this](Request& request) { return rollback(request); };
  route.body = {{"", R"({"type":"object","properties":{"version":{"type":"integer"}}})"}};
  route.answers = {{200, "The function.", function}};
  route.errors = {Code::NotFound, Code::Conflict};
  router.add(std::move(route));

  route = routeOf(Method::Get, one + "/logs", "functionLogs", "What a function printed",
                  "functions:read");
  route.handler = [this](Request& request) { return logs(request); };
  route.description =
      "Followed, it is a stream of server-sent events: the newest `limit` lines, oldest first, "
      "then "
      "each as it comes, with its number as `id`. With `Last-Event-ID` it goes on behind that "
      "line. "
      "An event `missed` tells how many lines a reader was too slow for.";
  route.query = {{"limit", "", R"({"type":"integer"})"},
                 {"cursor"},
                 {"follow", "Stay and send what comes.", R"({"type":"boolean"})"}};
  route.answers = {{200, "Newest first.", R"({"type":"object"})"}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
