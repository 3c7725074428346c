#include "gateway/keys.h"

#include "gateway/list_text.h"
#include "http/router.h"

#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::size_t kListed = 100;

http::Route routeOf(http::Method method, std::string pattern, std::string operation_id,
                    std::string summary) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.operation_id = std::move(operation_id);
  route.summary = std::move(summary);
  route.tag = "Keys";
  route.scope = "admin";
  return route;
}

}  // namespace

Task<Result<http::Response>> Keys::create(http::Request& request) {
  const Timestamp now = store_.now();
  NIMBUS_CO_TRY(KeyRequest asked, parseKeyRequest(request.body, now));
  auto principal = std::make_shared<Principal>();
  principal->id = makeKeyId(random_);
  principal->name = std::move(asked.name);
  principal->scopes = std::move(asked.scopes);
  principal->session_prefix = std::move(asked.session_prefix);
  principal->rate_limit = asked.rate_limit.value_or(default_limit_);
  const std::string plain = makeKey(principal->id, random_);
  ApiKey key;
  key.principal = std::move(principal);
  key.hash = hashKey(plain);
  key.own_rate_limit = asked.rate_limit;
  key.expires_at = asked.expires_at;
  key.created_at = now;
  NIMBUS_CO_CHECK(co_await ring_.add(key));
  http::Response response = http::Response::json(keyText(key, plain), 201);
  response.header("Location", "/api/v1/keys/" + key.id());
  response.header("Cache-Control", "no-store");
  co_return response;
}

Task<Result<http::Response>> Keys::list(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  NIMBUS_CO_TRY(const KeyRing::KeyPage page, co_await ring_.list(std::move(after), limit));
  ListText text;
  for (const ApiKey& key : page.items) text.add(keyText(key));
  co_return http::Response::json(
      std::move(text).finish(page.more ? std::optional(page.last) : std::nullopt));
}

Task<Result<http::Response>> Keys::show(http::Request& request) {
  NIMBUS_CO_TRY(const ApiKey key, co_await ring_.show(std::string(request.parameters["id"])));
  co_return http::Response::json(keyText(key));
}

Task<Result<http::Response>> Keys::remove(http::Request& request) {
  NIMBUS_CO_CHECK(co_await ring_.remove(std::string(request.parameters["id"])));
  co_return http::Response::noContent();
}

void Keys::addRoutes(http::Router& router) {
  using http::Method;
  using http::Request;
  const std::string all = "/api/v1/keys";
  router.addSchema(
      "Key",
      R"({"type":"object","properties":{"id":{"type":"string"},"name":{"type":"string"},)"
      R"("scopes":{"type":"array","items":{"type":"string"}},"session_prefix":{"type":["string",)"
      R"("null"]},"rate_limit":{"description":"Requests per minute; 0: no limit."},"expires_at":)"
      R"({"type":["string","null"],"format":"date-time"},"created_at":{"type":"string",)"
      R"("format":"date-time"},"key":{"type":"string","description":"The key itself, only in the )"
      R"(answer to its creation."}}})");
  const std::string key = R"({"$ref":"#/components/schemas/Key"})";

  http::Route route = routeOf(Method::Post, all, "createKey", "Make an API key");
  route.description =
      "The answer is the only place where the key itself ever stands. `rate_limit` is a number of "
      "requests per minute, 0 for none, or `{\"requests\", \"window_s\", \"burst\"}`.";
  route.handler = [this](Request& request) { return create(request); };
  route.body = {
      {"", R"({"type":"object","required":["name","scopes"],"additionalProperties":false,)"
           R"("properties":{"name":{"type":"string"},"scopes":{"type":"array","items":{"type":)"
           R"("string"}},"expires_at":{"type":["string","null"],"format":"date-time"},)"
           R"("session_prefix":{"type":["string","null"]},"rate_limit":{}}})"}};
  route.answers = {{201, "The key, with `key`.", key}};
  route.errors = {Code::QuotaExceeded};
  router.add(std::move(route));

  route = routeOf(Method::Get, all, "listKeys", "API keys");
  route.handler = [this](Request& request) { return list(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "By id; never the keys themselves.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, all + "/{id}", "showKey", "An API key");
  route.handler = [this](Request& request) { return show(request); };
  route.answers = {{200, "The key, without the key itself.", key}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));

  route = routeOf(Method::Delete, all + "/{id}", "deleteKey", "Delete an API key");
  route.description =
      "Once this is answered no server accepts the key for a request that is sent then or later. "
      "It takes a moment: until every server must have noticed.";
  route.handler = [this](Request& request) { return remove(request); };
  route.answers = {{204, "Gone."}};
  route.errors = {Code::NotFound};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
