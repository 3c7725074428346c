#include "gateway/instances.h"

#include "base/json_text.h"
#include "base/time_text.h"
#include "gateway/list_text.h"
#include "http/router.h"

#include <fmt/format.h>

#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

std::string textOf(const cluster::Member& member, bool is_self, Timestamp now) {
  std::string text = R"({"id":)";
  appendJsonString(text, member.id);
  text += R"(,"url":)";
  appendJsonString(text, member.url);
  text += R"(,"address":)";
  appendJsonString(text, member.url.substr(member.url.find("://") + 3));
  text += R"(,"peer_address":)";
  appendJsonString(text, member.address);
  text += R"(,"version":)";
  appendJsonString(text, member.version);
  fmt::format_to(
      std::back_inserter(text),
      R"(,"pid":{},"status":"{}","self":{},"sessions":{},"flows":0,"vms":{},"started_at":"{}",)"
      R"("lease_remaining_ms":{}}})",
      member.process.pid, member.is_leaving ? "leaving" : "alive", is_self, member.sessions,
      member.instances, timeText(member.started_at),
      std::max<Millis::rep>(0, (member.lease_until - now).count()));
  return text;
}

http::Route routeOf(std::string pattern, std::string summary) {
  http::Route route;
  route.method = http::Method::Get;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Cluster";
  route.scope = "metrics:read";
  route.errors = {Code::Unavailable};
  return route;
}

}  // namespace

Task<Result<http::Response>> Instances::list(http::Request&) {
  NIMBUS_CO_CHECK(co_await members_.refresh());
  const cluster::ViewPtr view = members_.view();
  ListText text;
  for (const cluster::Member& member : view->members) {
    text.add(textOf(member, member.key == view->self, store_.now()));
  }
  co_return http::Response::json(std::move(text).finish(std::nullopt));
}

Task<Result<http::Response>> Instances::ring(http::Request& request) {
  const cluster::ViewPtr view = members_.view();
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const auto function, query.text("function_id"));
  NIMBUS_CO_TRY(const auto session, query.text("session_key"));
  const std::vector<double> shares = view->ring.shares();
  std::string text = fmt::format(R"({{"points_per_instance":{},"items":[)", cluster::Ring::kPoints);
  for (std::size_t i = 0; i < shares.size(); ++i) {
    if (i != 0) text += ',';
    text += R"({"id":)";
    appendJsonString(text, view->members[view->on_ring[i]].id);
    fmt::format_to(std::back_inserter(text), R"(,"share":{:.4f}}})", shares[i]);
  }
  text += ']';
  if (function && session) {
    text += R"(,"proposed":)";
    const auto owner = view->proposedFor(cluster::pointOf(*function, *session));
    appendJsonString(text, cluster::idOfKey(owner));
  }
  text += '}';
  co_return http::Response::json(std::move(text));
}

void Instances::addRoutes(http::Router& router) {
  http::Route route = routeOf("/api/v1/instances", "The instances that share the store");
  route.description =
      "Who is alive, by the store's clock. `sessions` are those an instance holds in memory, as of "
      "its last heartbeat.";
  route.handler = [this](http::Request& request) { return list(request); };
  route.answers = {
      {200, "By id.",
       R"({"type":"object","properties":{"items":{"type":"array","items":)"
       R"({"type":"object","properties":{"id":{"type":"string"},)"
       R"("url":{"type":"string"},"address":{"type":"string"},"peer_address":{"type":"string"},)"
       R"("version":{"type":"string"},"pid":{"type":"integer"},)"
       R"("status":{"type":"string","enum":["alive","leaving"]},)"
       R"("self":{"type":"boolean"},"sessions":{"type":"integer"},)"
       R"("flows":{"type":"integer"},"vms":{"type":"integer"},)"
       R"("started_at":{"type":"string"},"lease_remaining_ms":{"type":"integer"}}}},)"
       R"("next_cursor":{"type":"null"}}})"}};
  router.add(std::move(route));

  route = routeOf("/api/v1/ring", "How sessions are spread over the instances");
  route.description =
      "The ring proposes who is to own a session that nobody owns; the claim in the store decides.";
  route.handler = [this](http::Request& request) { return ring(request); };
  route.query = {{"function_id", "With `session_key`: also who is proposed for that session."},
                 {"session_key"}};
  route.answers = {{200, "The part of all sessions that falls to each.",
                    R"({"type":"object","properties":{"points_per_instance":{"type":"integer"},)"
                    R"("items":{"type":"array","items":{"type":"object","properties":)"
                    R"({"id":{"type":"string"},"share":{"type":"number"}}}},)"
                    R"("proposed":{"type":"string"}}})"}};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
