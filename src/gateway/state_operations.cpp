#include "gateway/state_operations.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "gateway/principal.h"
#include "http/router.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

void appendTexts(std::string& json, std::string_view name, const std::vector<std::string>& texts) {
  fmt::format_to(std::back_inserter(json), R"(,"{}":[)", name);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i != 0) json += ',';
    appendJsonString(json, texts[i]);
  }
  json += ']';
}

std::vector<std::string> textsOf(const JsonValue& root, std::string_view name) {
  std::vector<std::string> texts;
  if (const auto array = root.member(name)) {
    for (const JsonValue& one : array->elements()) texts.emplace_back(one.string().value_or(""));
  }
  return texts;
}

}  // namespace

std::string operationText(std::string_view session_key, const state::Operation& operation) {
  std::string json = R"({"session_key":)";
  appendJsonString(json, session_key);
  json += R"(,"operation":)";
  appendJsonString(json, state::nameOf(operation.kind));
  json += R"(,"key":)";
  appendJsonString(json, operation.key);
  appendTexts(json, "keys", operation.keys);
  appendTexts(json, "values", operation.values);
  if (operation.ttl) fmt::format_to(std::back_inserter(json), R"(,"ttl":{})", *operation.ttl);
  fmt::format_to(std::back_inserter(json), R"(,"delta":{})", operation.delta);
  if (operation.version) {
    fmt::format_to(std::back_inserter(json), R"(,"version":{})", *operation.version);
  }
  json += R"(,"pattern":)";
  appendJsonString(json, operation.pattern);
  json += '}';
  return json;
}

Result<state::Operation> parseOperation(std::string_view json, std::string& session_key) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto kind = state::kindNamed(root.string("operation").value_or(""));
  if (!kind) return Error(Code::InvalidArgument, "\"operation\" is none of the state API");
  state::Operation operation;
  operation.kind = *kind;
  session_key = root.string("session_key").value_or("");
  operation.key = root.string("key").value_or("");
  operation.keys = textsOf(root, "keys");
  operation.values = textsOf(root, "values");
  if (const auto ttl = root.member("ttl")) operation.ttl = ttl->number();
  operation.delta = root.integer("delta").value_or(1);
  if (const auto version = root.integer("version"); version && *version >= 0) {
    operation.version = static_cast<state::Version>(*version);
  }
  if (const auto pattern = root.string("pattern")) operation.pattern = std::string(*pattern);
  for (const std::string& value : operation.values) NIMBUS_CHECK(checkJson(value));
  return operation;
}

std::string answerText(const state::Answer& answer) {
  std::string json = R"({"found":[)";
  for (const state::Found& found : answer.found) {
    if (json.back() != '[') json += ',';
    json += R"({"key":)";
    appendJsonString(json, found.key);
    json += R"(,"value":)";
    appendJsonString(json, found.value);
    fmt::format_to(std::back_inserter(json), R"(,"version":{}}})", found.version);
  }
  fmt::format_to(std::back_inserter(json), R"(],"version":{},"versions":[{}],"number":{},)",
                 answer.version, fmt::join(answer.versions, ","), answer.number);
  fmt::format_to(std::back_inserter(json), R"("flag":{},"ttl":{})", answer.flag, answer.ttl);
  appendTexts(json, "keys", answer.keys);
  json += '}';
  return json;
}

Result<state::Answer> parseAnswer(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  state::Answer answer;
  const auto versionIn = [](const JsonValue& value) {
    return static_cast<state::Version>(value.integer().value_or(0));
  };
  if (const auto all = root.member("found")) {
    for (const JsonValue& one : all->elements()) {
      answer.found.push_back({std::string(one.string("key").value_or("")),
                              std::string(one.string("value").value_or("")),
                              static_cast<state::Version>(one.integer("version").value_or(0))});
    }
  }
  answer.version = static_cast<state::Version>(root.integer("version").value_or(0));
  if (const auto versions = root.member("versions")) {
    for (const JsonValue& one : versions->elements()) answer.versions.push_back(versionIn(one));
  }
  answer.number = root.integer("number").value_or(0);
  answer.flag = root.boolean("flag").value_or(false);
  if (const auto ttl = root.member("ttl")) answer.ttl = ttl->number().value_or(-1);
  answer.keys = textsOf(root, "keys");
  return answer;
}

Task<Result<http::Response>> StateOperations::apply(http::Request& request) {
  const session::FunctionPtr function = find_(request.parameters["id"]);
  if (!function) co_return noFunction(request.parameters["id"]);
  std::string session_key;
  NIMBUS_CO_TRY(state::Operation operation, parseOperation(request.body, session_key));
  NIMBUS_CO_CHECK(checkText("session key", session_key));
  NIMBUS_CO_CHECK(checkSession(request, session_key));
  session::CallPtr call(new session::Call);
  call->function = function;
  call->request_id = std::string(request.id);
  call->session_key = std::move(session_key);
  call->operation = std::move(operation);
  NIMBUS_CO_CHECK(calls_.submit(call));
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await call->settled.wait();
  if (call->outcome.error) co_return *call->outcome.error;
  co_return http::Response::json(answerText(call->outcome.answer));
}

void StateOperations::addRoutes(http::Router& router) {
  http::Route route;
  route.method = http::Method::Post;
  route.pattern = "/api/v1/functions/{id:name}/state-operations";
  route.handler = [this](http::Request& request) { return apply(request); };
  route.summary = "Carry out one operation of the state API on a session";
  route.description =
      "As a function would, in the order of the session. Values are JSON texts in strings.";
  route.tag = "Sessions and state";
  route.scope = "sessions:write";
  route.checks_reach = true;
  route.body = {{"The operation; which members it needs depends on it.",
                 R"({"type":"object","required":["session_key","operation"],"properties":)"
                 R"({"session_key":{"type":"string"},"operation":{"type":"string"},)"
                 R"("key":{"type":"string"},"keys":{"type":"array","items":{"type":"string"}},)"
                 R"("values":{"type":"array","items":{"type":"string"}},"ttl":{"type":"number"},)"
                 R"("delta":{"type":"integer"},"version":{"type":"integer"},)"
                 R"("pattern":{"type":"string"}}})"}};
  route.answers = {{200, "What it answers; which members mean something depends on it.",
                    R"({"type":"object"})"}};
  route.errors = {Code::NotFound, Code::VersionConflict, Code::QuotaExceeded, Code::Fenced,
                  Code::Unavailable};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
