#include "gateway/forwarding.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/task_group.h"
#include "gateway/peer_principal.h"
#include "gateway/state_operations.h"
#include "http/percent.h"
#include "http/router.h"
#include "http/text.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;
using cluster::Moved;
using cluster::PeerAnswer;

constexpr Millis kFirstPause{5};
constexpr Millis kLongestPause{100};

// What concerns one connection, or was seen to where the request came from.
constexpr std::array<std::string_view, 14> kNotPassedOn = {
    "Host",           "Connection", "Keep-Alive",  "Content-Length",  "Transfer-Encoding",
    "Expect",         "TE",         "Trailer",     "Upgrade",         "Authorization",
    "X-Device-Token", "Cookie",     "X-Device-Id", "Proxy-Connection"};
constexpr std::array<std::string_view, 6> kNotPassedBack = {
    "Date", "Connection", "Content-Length", "Content-Type", "Nimbus-Request-Id", "Keep-Alive"};

template <typename Names>
bool isAmong(const Names& names, std::string_view name) {
  return std::any_of(names.begin(), names.end(),
                     [&](std::string_view one) { return http::equalIgnoringCase(one, name); });
}

bool isOfPeers(std::string_view name) {
  return http::equalIgnoringCase(name.substr(0, kPeerFields.size()), kPeerFields);
}

// Calls, and whatever names a session or an asynchronous call.
bool concernsOneSession(const http::Route& route) {
  const std::string_view pattern = route.pattern;
  return pattern.starts_with("/api/v1/functions/{id:name}/invoke") ||
         pattern.starts_with("/api/v1/invocations/{request_id}") ||
         pattern.ends_with("/sessions:import") || pattern.ends_with("/state-operations") ||
         (pattern.starts_with("/api/v1/functions/") &&
          pattern.find("{session_key}") != std::string_view::npos);
}

void appendField(std::string& text, std::string_view name, std::string_view value) {
  text.append(name).append(": ").append(value).append("\r\n");
}

void appendBody(std::string& text, std::string_view body) {
  text += "Content-Length: ";
  appendNumber(text, body.size());
  text.append("\r\n\r\n").append(body);
}

std::string_view lastingType(std::string_view type) {
  for (const std::string_view known : {http::kJson, http::kProblemJson, http::kPlainText}) {
    if (type == known) return known;
  }
  return type.empty() ? std::string_view() : std::string_view("application/octet-stream");
}

http::Response responseOf(PeerAnswer answer) {
  http::Response response;
  response.status = answer.status;
  response.content_type = lastingType(answer.header("Content-Type"));
  std::string_view rest = answer.head;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const std::size_t colon = line.find(": ");
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    if (isAmong(kNotPassedBack, name) || isOfPeers(name)) continue;
    response.header(name, line.substr(colon + 2));
  }
  response.body = std::move(answer.body);
  return response;
}

Task<> pause(Millis time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

const Principal& anyNode() {
  static const Principal principal = [] {
    Principal made;
    made.id = "node";
    made.name = "node";
    made.scopes.insert("admin");
    return made;
  }();
  return principal;
}

}  // namespace

Forwarding::Forwarding(Parts parts, Options options) : parts_(parts), options_(options) {}

void Forwarding::addTo(Metrics& metrics) {
  const auto requests = metrics.counters(
      "nimbus_cluster_forwarded_total",
      "Requests sent to the node that owns their session, by what it said.", {{"result"}});
  forwarded_ = requests.with({"answered"});
  misdirected_ = requests.with({"misdirected"});
  failed_ = requests.with({"failed"});
  metrics.onScrape(Metrics::Kind::Gauge, "nimbus_cluster_peer_connections",
                   "Connections to other nodes.",
                   [this] { return static_cast<double>(parts_.peers.connections()); });
  metrics.onScrape(Metrics::Kind::Gauge, "nimbus_cluster_nodes",
                   "Nodes that are alive, this one included.",
                   [this] { return static_cast<double>(parts_.members.view()->members.size()); });
}

void Forwarding::watch(http::Router& router) {
  router.decorate([this](const http::Route& route, http::Handler handler) -> http::Handler {
    if (!concernsOneSession(route)) return handler;
    return [this, handler = std::move(handler)](http::Request& request) {
      return serve(handler, request);
    };
  });
}

Task<Result<http::Response>> Forwarding::serve(const http::Handler& handler,
                                               http::Request& request) {
  if (principalOf(request).is_forwarded) co_return co_await serveForwarded(handler, request);
  Result<http::Response> result = co_await handler(request);
  if (result) co_return result;
  std::optional<Moved> moved = cluster::movedIn(result.error());
  if (!moved) co_return result;
  co_return co_await serveElsewhere(handler, request, *std::move(moved));
}

// Carries it out, or says who does.
Task<Result<http::Response>> Forwarding::serveForwarded(const http::Handler& handler,
                                                        http::Request& request) {
  std::string owner;
  if (!parts_.members.isLeaving()) {
    Result<http::Response> result = co_await handler(request);
    if (result) co_return result;
    const std::optional<Moved> moved = cluster::movedIn(result.error());
    if (!moved) co_return result;
    owner = moved->owner;
  }
  http::Response response;
  response.status = kMisdirected;
  if (!owner.empty()) response.header(kPeerOwner, owner);
  co_return response;
}

std::string Forwarding::headOf(std::string_view method, std::string_view target,
                               const Principal& principal, std::string_view request_id) const {
  std::string text;
  text.reserve(512);
  text.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: node\r\n");
  appendField(text, kPeerSecret, parts_.members.secret());
  appendField(text, kPeerPrincipal, principalText(principal));
  if (!request_id.empty()) appendField(text, kPeerRequest, request_id);
  return text;
}

Task<Result<std::optional<PeerAnswer>>> Forwarding::tryOwner(const Moved& moved,
                                                             std::string bytes) {
  const cluster::ViewPtr view = parts_.members.view();
  const cluster::Member* const owner = view->find(moved.owner);
  if (owner == nullptr) co_return std::optional<PeerAnswer>();
  Result<PeerAnswer> answer = co_await parts_.peers.send(owner->address, std::move(bytes));
  if (answer && answer->status != kMisdirected) {
    if (forwarded_) forwarded_->increment();
    co_return std::optional(*std::move(answer));
  }
  if (answer) {
    if (misdirected_) misdirected_->increment();
    co_return std::optional(*std::move(answer));
  }
  if (failed_) failed_->increment();
  const bool may_have_happened = answer.error().outcome() == Outcome::Unknown;
  co_await parts_.members.suspect(moved.owner);
  if (may_have_happened) co_return answer.error();
  co_return std::optional<PeerAnswer>();
}

Task<Result<http::Response>> Forwarding::serveElsewhere(const http::Handler& handler,
                                                        http::Request& request, Moved moved) {
  co_await asio::this_coro::throw_if_cancelled(false);
  std::string bytes =
      headOf(http::methodName(request.method), request.target, principalOf(request), request.id);
  for (const http::HeaderField& field : request.headers) {
    if (isAmong(kNotPassedOn, field.name) || isOfPeers(field.name)) continue;
    appendField(bytes, field.name, field.value);
  }
  appendBody(bytes, request.body);
  // Also if it may have been carried out: then the answer is found, or it changes nothing.
  const bool may_repeat =
      request.method == http::Method::Get || request.headerCount("Idempotency-Key") == 1;
  const SteadyTime deadline = parts_.clock.now() + options_.patience;
  Millis wait = kFirstPause;
  while (true) {
    Result<std::optional<PeerAnswer>> tried = co_await tryOwner(moved, bytes);
    if (!tried && !may_repeat) co_return tried.error();
    std::optional<PeerAnswer> answer = tried ? *std::move(tried) : std::nullopt;
    if (answer && answer->status != kMisdirected) co_return responseOf(*std::move(answer));
    parts_.members.elsewhere().forget(moved.function_id, moved.session_key);
    const std::string_view hint = answer ? answer->header(kPeerOwner) : std::string_view();
    if (parts_.clock.now() >= deadline) {
      co_return Error(Code::Unavailable, "the node that owns the session does not take the call")
          .with("retry_after_ms", 1000);
    }
    if (!hint.empty() && hint != moved.owner && parts_.members.view()->find(hint) != nullptr &&
        hint != parts_.members.view()->self) {
      moved.owner = hint;
      if (wait == kFirstPause) {
        wait += kFirstPause;
        continue;
      }
    } else if (!hint.empty() && hint != moved.owner) {
      // Who joined, or left, just now.
      co_await parts_.members.suspect(std::string(hint));
    }
    co_await pause(wait);
    wait = std::min(wait * 2, kLongestPause);
    Result<http::Response> result = co_await handler(request);
    if (result) co_return result;
    std::optional<Moved> again = cluster::movedIn(result.error());
    if (!again) co_return result;
    moved = *std::move(again);
  }
}

std::optional<Moved> Forwarding::ownerElsewhere(const std::string& owner,
                                                std::string_view function_id,
                                                std::string_view session_key) const {
  if (owner.empty() || !parts_.members.hasOthers()) return std::nullopt;
  const cluster::ViewPtr view = parts_.members.view();
  if (owner == view->self || view->find(owner) == nullptr) return std::nullopt;
  return Moved{owner, std::string(function_id), std::string(session_key)};
}

Task<Result<PeerAnswer>> Forwarding::ask(const Moved& moved, const http::Request& request,
                                         Errand errand) {
  std::string bytes = headOf(errand.method, errand.target, principalOf(request), request.id);
  appendBody(bytes, errand.body);
  NIMBUS_CO_TRY(std::optional<PeerAnswer> answer, co_await tryOwner(moved, std::move(bytes)));
  if (answer && answer->status != kMisdirected) co_return *std::move(answer);
  parts_.members.elsewhere().forget(moved.function_id, moved.session_key);
  co_return Error(Code::Unavailable, "the node that owns the session does not answer");
}

Task<Result<state::Answer>> Forwarding::operate(Moved moved, session::CallPtr call) {
  const std::string target =
      fmt::format("/api/v1/functions/{}/state-operations", call->function->id);
  std::string bytes = headOf("POST", target, anyNode(), call->request_id);
  appendBody(bytes, operationText(*call->session_key, *call->operation));
  NIMBUS_CO_TRY(const std::optional<PeerAnswer> answer, co_await tryOwner(moved, std::move(bytes)));
  if (answer && answer->status == 200) co_return parseAnswer(answer->body);
  parts_.members.elsewhere().forget(moved.function_id, moved.session_key);
  if (!answer || answer->status == kMisdirected) co_return cluster::movedTo(std::move(moved));
  NIMBUS_CO_TRY(const JsonValue problem, parseJson(answer->body));
  const auto code = session::codeNamed(problem.string("code").value_or(""));
  Error error(code.value_or(Code::Internal), std::string(problem.string("detail").value_or("")));
  if (const auto current = problem.integer("current_version")) {
    co_return std::move(error).with("current_version", *current);
  }
  co_return error;
}

Task<> Forwarding::tell(std::string address) {
  std::string bytes = headOf("GET", "/api/v1/instances", anyNode(), "");
  appendBody(bytes, "");
  static_cast<void>(co_await parts_.peers.send(std::move(address), std::move(bytes)));
}

Task<> Forwarding::tellOthers(Millis patience) {
  const SteadyTime deadline = parts_.clock.now() + patience;
  const cluster::ViewPtr view = parts_.members.view();
  TaskGroup telling(co_await asio::this_coro::executor, "telling other nodes");
  for (const cluster::Member& member : view->members) {
    if (member.key != view->self && member.id != parts_.members.options().id) {
      telling.add(tell(member.address));
    }
  }
  while (telling.running() > 0 && parts_.clock.now() < deadline) co_await pause(kFirstPause);
  if (telling.running() > 0) {
    for (const cluster::Member& member : view->members) parts_.peers.drop(member.address);
  }
  co_await telling.join();
}

Task<Result<std::uint64_t>> Forwarding::handOver(Moved moved, session::CallPtr call, Millis delay) {
  std::string target =
      fmt::format("/api/v1/functions/{}/invoke?mode=async&delay_ms={}&timeout_ms={}&priority={}",
                  call->function->id, delay.count(), call->timeout.count(), call->priority);
  if (call->session_key) target += "&session_key=" + http::percentEncode(*call->session_key);
  std::string bytes = headOf("POST", target, anyNode(), call->request_id);
  appendField(bytes, kPeerRepeats, "1");
  if (!call->traceparent.empty()) appendField(bytes, "traceparent", call->traceparent);
  appendBody(bytes, fmt::format(R"({{"payload":{}}})", call->payload));
  NIMBUS_CO_TRY(const std::optional<PeerAnswer> answer, co_await tryOwner(moved, std::move(bytes)));
  if (answer && answer->status == 202) co_return 0;
  parts_.members.elsewhere().forget(moved.function_id, moved.session_key);
  if (!answer || answer->status == kMisdirected) {
    co_return Error(Code::Unavailable, "the node that owns the receiver does not answer");
  }
  const bool is_full = answer->status == 429;
  co_return Error(is_full ? Code::QueueFull : Code::Unavailable,
                  fmt::format("the node that owns the receiver says {}", answer->status));
}

}  // namespace nimbus::gateway
