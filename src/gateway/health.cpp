#include "gateway/health.h"

#include "base/log.h"
#include "base/version.h"
#include "http/router.h"

#include <boost/json.hpp>

#include <chrono>
#include <string_view>
#include <utility>

namespace nimbus::gateway {
namespace {

namespace json = boost::json;

constexpr std::string_view kHealthSchema = R"({
  "type": "object",
  "required": ["ok", "version", "instanceId", "uptime", "sessions", "connectedChannels"],
  "properties": {
    "ok": {"type": "boolean"},
    "version": {"type": "string"},
    "instanceId": {"type": "string"},
    "uptime": {"type": "integer", "description": "Seconds since this instance started"},
    "sessions": {"type": "integer", "description": "Sessions this instance owns"},
    "connectedChannels": {"type": "array", "items": {"type": "string"}}
  }
})";

constexpr std::string_view kReadySchema = R"({
  "type": "object",
  "required": ["ready"],
  "properties": {
    "ready": {"type": "boolean"},
    "store": {
      "type": "object",
      "properties": {
        "backend": {"type": "string"},
        "durability": {"type": "string",
                       "description": "What an answered write survives: disk, replicated or memory"}
      }
    },
    "reason": {"type": "string"}
  }
})";

http::Response answer(const json::object& body, int status) {
  http::Response response = http::Response::json(json::serialize(body), status);
  response.header("Cache-Control", "no-store");
  return response;
}

http::Route route(std::string pattern, std::string summary, std::string_view schema) {
  http::Route route;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "health";
  route.answers = {{200, "All is well", std::string(schema)},
                   {503, "The store does not answer", std::string(schema)}};
  return route;
}

}  // namespace

Health::Health(std::string instance_id, Parts parts)
    : instance_id_(std::move(instance_id)), parts_(parts), started_(parts.clock.now()) {}

void Health::addRoutes(http::Router& router) {
  router.addSchema("Health", std::string(kHealthSchema));
  router.addSchema("Ready", std::string(kReadySchema));

  http::Route all = route("/health", "Is the server well, and which one is it",
                          R"({"$ref": "#/components/schemas/Health"})");
  all.handler = [this](http::Request& request) { return health(request); };
  router.add(std::move(all));

  http::Route alive =
      route("/health/live", "Does the process run: restart it if not", R"({"type": "object"})");
  alive.answers.pop_back();  // it never looks at the store
  alive.handler = [this](http::Request& request) { return live(request); };
  router.add(std::move(alive));

  http::Route able = route("/health/ready", "Can it take calls: send it none if not",
                           R"({"$ref": "#/components/schemas/Ready"})");
  able.handler = [this](http::Request& request) { return ready(request); };
  router.add(std::move(able));
}

Task<Result<http::Response>> Health::health(http::Request& /*request*/) {
  const auto store = co_await parts_.store.check();
  const auto uptime =
      std::chrono::floor<std::chrono::seconds>(parts_.clock.now() - started_).count();
  json::array channels;
  for (const std::string& channel : parts_.activity.connectedChannels()) {
    channels.emplace_back(channel);
  }
  json::object body;
  body["ok"] = store.has_value();
  body["version"] = version();
  body["instanceId"] = instance_id_;
  body["uptime"] = uptime;
  body["sessions"] = parts_.activity.sessions();
  body["connectedChannels"] = std::move(channels);
  co_return answer(body, store ? 200 : 503);
}

Task<Result<http::Response>> Health::live(http::Request& /*request*/) {
  json::object body;
  body["live"] = true;
  co_return answer(body, 200);
}

Task<Result<http::Response>> Health::ready(http::Request& /*request*/) {
  const auto store = co_await parts_.store.check();
  json::object body;
  body["ready"] = store.has_value();
  if (store) {
    json::object about;
    about["backend"] = store->backend;
    about["durability"] = store->durability;
    body["store"] = std::move(about);
  } else {
    // Anyone may ask; what exactly the store said is for the log.
    log::warn("the store does not answer", {{"reason", store.error().message()}});
    body["reason"] = "the store does not answer";
  }
  co_return answer(body, store ? 200 : 503);
}

}  // namespace nimbus::gateway
