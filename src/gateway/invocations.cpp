#include "gateway/invocations.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "cluster/moved.h"
#include "gateway/api_key.h"
#include "gateway/peer_principal.h"
#include "gateway/principal.h"
#include "http/problem.h"
#include "http/router.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <any>
#include <initializer_list>
#include <utility>

namespace nimbus::gateway {
namespace {

using session::Call;
using session::CallPtr;
using session::Outcome;

constexpr std::int64_t kLongestTimeoutMs = 24LL * 3600 * 1000;
constexpr std::int64_t kLongestDelayMs = 366LL * 24 * 3600 * 1000;

// The options of a call, wherever they were given.
struct Options {
  std::optional<std::string> session_key;
  std::string payload = "null";
  std::optional<std::int64_t> timeout_ms;
  std::optional<std::string> busy;
  std::optional<std::string> mode;
  std::optional<std::int64_t> delay_ms;
  std::optional<std::int64_t> priority;

  bool isAsynchronous() const { return mode == "async"; }
};

Result<std::string> textOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (const auto text = value.string()) return std::string(*text);
  return Error(Code::InvalidArgument, fmt::format("\"{}\" must be text", member.name));
}

Result<std::int64_t> integerOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (const auto number = value.integer()) return *number;
  return Error(Code::InvalidArgument, fmt::format("\"{}\" must be a whole number", member.name));
}

Result<> addSessionKey(Options& options, std::string key, std::string_view where) {
  NIMBUS_CHECK(checkText("session key", key));
  if (options.session_key && *options.session_key != key) {
    return Error(Code::InvalidArgument,
                 fmt::format("the session key in the {} is another than before", where));
  }
  options.session_key = std::move(key);
  return {};
}

Result<> readBody(Options& options, std::string_view body) {
  if (trimJson(body).empty()) return {};
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(body));
  for (const RawMember& member : members) {
    if (member.name == "payload") {
      options.payload = std::string(member.value);
    } else if (member.name == "session_key") {
      if (member.value == "null") continue;
      NIMBUS_TRY(std::string key, textOf(member));
      NIMBUS_CHECK(addSessionKey(options, std::move(key), "body"));
    } else if (member.name == "timeout_ms") {
      NIMBUS_TRY(options.timeout_ms, integerOf(member));
    } else if (member.name == "busy") {
      NIMBUS_TRY(options.busy, textOf(member));
    } else if (member.name == "mode") {
      NIMBUS_TRY(options.mode, textOf(member));
    } else if (member.name == "delay_ms") {
      NIMBUS_TRY(options.delay_ms, integerOf(member));
    } else if (member.name == "priority") {
      NIMBUS_TRY(options.priority, integerOf(member));
    } else {
      return Error(Code::InvalidArgument,
                   fmt::format("there is no \"{}\" in a call; what the function is to get goes "
                               "into \"payload\"",
                               printable(member.name)));
    }
  }
  return {};
}

// Whether `Prefer` has respond-async among its preferences.
bool prefersAsync(std::string_view prefer) {
  while (!prefer.empty()) {
    const std::size_t comma = std::min(prefer.find(','), prefer.size());
    if (trimJson(prefer.substr(0, comma)) == "respond-async") return true;
    prefer.remove_prefix(std::min(comma + 1, prefer.size()));
  }
  return false;
}

Result<> readMode(Options& options, const http::Request& request, const http::Query& query) {
  NIMBUS_TRY(auto mode, query.text("mode"));
  if (mode) options.mode = std::move(mode);
  if (!options.mode && prefersAsync(request.header("Prefer"))) options.mode = "async";
  if (options.mode && *options.mode != "sync" && *options.mode != "async") {
    return Error(Code::InvalidArgument, "\"mode\" is \"sync\" or \"async\"");
  }
  NIMBUS_TRY(const auto delay, query.integer("delay_ms", http::IntegerRange{0, kLongestDelayMs}));
  if (delay) options.delay_ms = delay;
  if (options.delay_ms && (*options.delay_ms < 0 || *options.delay_ms > kLongestDelayMs)) {
    return Error(Code::InvalidArgument, "\"delay_ms\" must be from 0 to 31622400000");
  }
  if (options.delay_ms && *options.delay_ms > 0 && !options.isAsynchronous()) {
    return Error(Code::InvalidArgument,
                 "\"delay_ms\" is for calls that nobody waits for: add \"mode\": \"async\"");
  }
  if (options.busy == "reject" && options.isAsynchronous()) {
    return Error(Code::InvalidArgument, "\"busy\": \"reject\" is for calls that are waited for");
  }
  return {};
}

Result<Options> readOptions(const http::Request& request) {
  Options options;
  const http::Query query = request.queryParameters();
  NIMBUS_TRY(auto key, query.text("session_key"));
  if (key) NIMBUS_CHECK(addSessionKey(options, *std::move(key), "query"));
  if (request.headerCount("Nimbus-Session-Key") > 1) {
    return Error(Code::InvalidArgument, "Nimbus-Session-Key is given twice");
  }
  if (request.headerCount("Nimbus-Session-Key") == 1) {
    NIMBUS_CHECK(
        addSessionKey(options, std::string(request.header("Nimbus-Session-Key")), "header"));
  }
  NIMBUS_CHECK(readBody(options, request.body));
  NIMBUS_TRY(const auto timeout,
             query.integer("timeout_ms", http::IntegerRange{1, kLongestTimeoutMs}));
  if (timeout) options.timeout_ms = timeout;
  if (options.timeout_ms && (*options.timeout_ms < 1 || *options.timeout_ms > kLongestTimeoutMs)) {
    return Error(Code::InvalidArgument, "\"timeout_ms\" must be from 1 to 86400000");
  }
  NIMBUS_TRY(auto busy, query.text("busy"));
  if (busy) options.busy = std::move(busy);
  if (options.busy && *options.busy != "queue" && *options.busy != "reject") {
    return Error(Code::InvalidArgument, "\"busy\" is \"queue\" or \"reject\"");
  }
  NIMBUS_CHECK(readMode(options, request, query));
  NIMBUS_TRY(const auto priority, query.integer("priority", http::IntegerRange{0, 9}));
  if (priority) options.priority = priority;
  if (options.priority && (*options.priority < 0 || *options.priority > 9)) {
    return Error(Code::InvalidArgument, "\"priority\" must be from 0 to 9");
  }
  return options;
}

// If the client leaves before the call has begun it never will. The slot is the handler's own: what
// it waits for takes no notice of cancellation.
class AbandonIfGone {
 public:
  AbandonIfGone(boost::asio::cancellation_slot slot, session::Calls& calls, const CallPtr& call)
      : slot_(slot) {
    if (!slot_.is_connected()) return;
    slot_.assign([&calls, call](boost::asio::cancellation_type) { calls.abandon(*call); });
  }
  ~AbandonIfGone() {
    if (slot_.is_connected()) slot_.clear();
  }
  AbandonIfGone(const AbandonIfGone&) = delete;
  AbandonIfGone& operator=(const AbandonIfGone&) = delete;

 private:
  boost::asio::cancellation_slot slot_;
};

// Gives an idempotency key back when its request has been seen to.
class KeyInUse {
 public:
  KeyInUse(session::Calls& calls, std::string name) : calls_(calls), name_(std::move(name)) {}
  ~KeyInUse() { calls_.releaseKey(name_); }
  KeyInUse(const KeyInUse&) = delete;
  KeyInUse& operator=(const KeyInUse&) = delete;

 private:
  session::Calls& calls_;
  const std::string name_;
};

// Each part with its length before it, so that no two lists of parts look alike.
std::string digestOf(std::initializer_list<std::string_view> parts) {
  std::string text;
  for (const std::string_view part : parts) {
    text.append(fmt::format_int(part.size()).c_str()).append(":").append(part);
  }
  std::string digest;
  for (const unsigned char byte : hashKey(text)) {
    fmt::format_to(std::back_inserter(digest), "{:02x}", byte);
  }
  return digest;
}

// Nothing if the request has no key.
Result<std::optional<session::Idempotency>> idempotencyOf(const http::Request& request,
                                                          std::string_view function_id) {
  const std::size_t keys = request.headerCount("Idempotency-Key");
  if (keys == 0) return std::optional<session::Idempotency>();
  if (keys > 1) return Error(Code::InvalidArgument, "Idempotency-Key is given twice");
  const std::string_view key = request.header("Idempotency-Key");
  NIMBUS_CHECK(checkText("Idempotency-Key", key));
  session::Idempotency idempotency;
  idempotency.name = digestOf({principalOf(request).id, function_id, key});
  idempotency.fingerprint =
      digestOf({request.query, request.body, request.header("Nimbus-Session-Key"),
                request.header("Prefer")});
  return std::optional(std::move(idempotency));
}

void appendFailure(std::string& body, const session::FunctionFailure& failure) {
  body.pop_back();  // the object goes on
  body += R"(,"error":{"type":)";
  appendJsonString(body, failure.type);
  body += R"(,"message":)";
  appendJsonString(body, failure.message);
  body += R"(,"trace":)";
  appendJsonString(body, failure.trace);
  body += "}}";
}

// With three decimals.
void appendMillis(std::string& out, std::chrono::microseconds duration) {
  const auto micros = duration.count();
  appendNumber(out, micros / 1000);
  const auto rest = micros % 1000;
  out += rest < 10 ? ".00" : (rest < 100 ? ".0" : ".");
  appendNumber(out, rest);
}

std::string answerOf(const Call& call, const Outcome& outcome) {
  std::string body;
  body.reserve(160 + outcome.body.size());
  body += R"({"request_id":)";
  appendJsonString(body, call.request_id);
  body += R"(,"status_code":)";
  appendNumber(body, outcome.status_code);
  body += R"(,"body":)";
  body += outcome.body;
  body += R"(,"duration_ms":)";
  appendMillis(body, outcome.duration);
  body += R"(,"session_key":)";
  if (call.session_key) {
    appendJsonString(body, *call.session_key);
  } else {
    body += "null";
  }
  body += '}';
  return body;
}

}  // namespace

Error noFunction(std::string_view id) {
  return {Code::NotFound, fmt::format("there is no function \"{}\"", printable(id))};
}

http::Response Invocations::respond(const Call& call, std::string_view node_id) const {
  const Outcome& outcome = call.outcome;
  http::Response response;
  if (outcome.error) {
    response = http::problem(*outcome.error, call.request_id);
    if (outcome.failure) appendFailure(response.body, *outcome.failure);
  } else if (outcome.status_code == 204 || outcome.status_code == 304) {
    response.status = outcome.status_code;
  } else {
    response = http::Response::json(answerOf(call, outcome), outcome.status_code);
  }
  if (outcome.seq != 0) response.header("Nimbus-Session-Seq", fmt::format_int(outcome.seq).c_str());
  if (!outcome.instance.empty()) response.header("Nimbus-Instance", outcome.instance);
  response.header("Nimbus-Node", node_id);
  return response;
}

http::Response Invocations::replay(session::StoredAnswer answer) const {
  CallPtr call(new Call);
  call->request_id = std::move(answer.request_id);
  call->session_key = std::move(answer.session_key);
  call->outcome = std::move(answer.outcome);
  http::Response response = answer.is_accepted
                                ? accepted(call->request_id, call->outcome.seq, answer.node)
                                : respond(*call, answer.node);
  response.header("Idempotent-Replayed", "true");
  return response;
}

http::Response Invocations::accepted(const std::string& request_id, std::uint64_t seq,
                                     std::string_view node_id) {
  std::string body = R"({"request_id":)";
  appendJsonString(body, request_id);
  body += R"(,"status":"queued","session_seq":)";
  body += seq != 0 ? fmt::format_int(seq).str() : "null";
  body += '}';
  http::Response response = http::Response::json(std::move(body), 202);
  response.header("Location", "/api/v1/invocations/" + request_id);
  if (seq != 0) response.header("Nimbus-Session-Seq", fmt::format_int(seq).c_str());
  response.header("Nimbus-Node", node_id);
  return response;
}

// Whether it is taken does not depend on a client that stays.
Task<Result<http::Response>> Invocations::accept(CallPtr call, Millis delay) {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  const std::string request_id = call->request_id;
  NIMBUS_CO_TRY(const std::uint64_t seq, co_await calls_.accept(std::move(call), delay));
  co_return accepted(request_id, seq, node_id_);
}

Task<Result<http::Response>> Invocations::invoke(http::Request& request) {
  const std::string_view id = request.parameters["id"];
  const session::FunctionPtr function = find_(id);
  if (!function) co_return noFunction(id);
  NIMBUS_CO_TRY(Options options, readOptions(request));
  NIMBUS_CO_CHECK(checkSession(request, options.session_key));
  CallPtr call(new Call);
  call->function = function;
  call->request_id = std::string(request.id);
  call->session_key = std::move(options.session_key);
  call->payload = std::move(options.payload);
  call->traceparent = std::string(request.traceparent);
  call->timeout = options.timeout_ms ? Millis(*options.timeout_ms) : function->timeout;
  call->only_if_idle = options.busy == "reject";
  if (options.priority) call->priority = static_cast<int>(*options.priority);
  call->may_be_repeated =
      principalOf(request).is_forwarded && !request.header(kPeerRepeats).empty();
  NIMBUS_CO_TRY(auto idempotency, idempotencyOf(request, id));
  std::optional<KeyInUse> key;
  if (idempotency) {
    // A client that leaves must not leave its key in use.
    co_await boost::asio::this_coro::throw_if_cancelled(false);
    NIMBUS_CO_TRY(auto answer, co_await calls_.takeKey(*idempotency));
    if (answer) co_return replay(*std::move(answer));
    key.emplace(calls_, idempotency->name);
    calls_.keepAnswer(
        *call, *std::move(idempotency),
        options.isAsynchronous() ? session::Calls::Kept::Acceptance : session::Calls::Kept::Answer);
  }
  if (options.isAsynchronous()) {
    co_return co_await accept(std::move(call), Millis(options.delay_ms.value_or(0)));
  }
  NIMBUS_CO_CHECK(calls_.submit(call));
  const boost::asio::cancellation_state cancellation =
      co_await boost::asio::this_coro::cancellation_state;
  const AbandonIfGone abandon(cancellation.slot(), calls_, call);
  // The call is seen through to its end, whether or not its client is there to hear of it.
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await call->settled.wait();
  const std::optional<Error>& error = call->outcome.error;
  if (error && cluster::movedIn(*error)) co_return *error;  // it has not begun
  function->metrics->callEnded(error ? std::optional(error->code()) : std::nullopt);
  if (call->journal && !call->session_key) {
    NIMBUS_CO_CHECK(co_await calls_.keepStatelessAnswer(call));
  }
  co_return respond(*call, node_id_);
}

void Invocations::addRoutes(http::Router& router) {
  http::Route route;
  route.method = http::Method::Post;
  route.pattern = "/api/v1/functions/{id:name}/invoke";
  route.handler = [this](http::Request& request) { return invoke(request); };
  route.operation_id = "invokeFunction";
  route.summary = "Call a function";
  route.description =
      "With a session key the calls of that session run one at a time, in the order of "
      "`Nimbus-Session-Seq`, and the answer comes when all that the call wrote is durable. The "
      "header `Idempotency-Key` makes it safe to send a call again: the stored answer comes with "
      "`Idempotent-Replayed: true`, 409 while the first is under way, 422 if it was another "
      "request.";
  route.tag = "Functions";
  route.scope = "invoke";
  route.checks_reach = true;
  route.query = {{"session_key", "Also as a body member or as the header `Nimbus-Session-Key`."},
                 {"timeout_ms", "Instead of the function's own.", R"({"type":"integer"})"},
                 {"busy", "`reject`: 409 if the session is busy.",
                  R"({"type":"string","enum":["queue","reject"]})"},
                 {"mode", "`async`: 202 when the call is durable; also `Prefer: respond-async`.",
                  R"({"type":"string","enum":["sync","async"]})"},
                 {"delay_ms", "Asynchronous calls: not before so long.", R"({"type":"integer"})"},
                 {"priority", "Between sessions; 9 is the first.",
                  R"({"type":"integer","minimum":0,"maximum":9,"default":5})"}};
  route.body = {{"What the function gets is `payload`.",
                 R"({"type":"object","properties":{"payload":{},"session_key":{"type":"string"},)"
                 R"("timeout_ms":{"type":"integer"},"busy":{"type":"string"},)"
                 R"("mode":{"type":"string"},"delay_ms":{"type":"integer"},)"
                 R"("priority":{"type":"integer"}}})"}};
  route.answers = {{200, "What the function returned.",
                    R"({"type":"object","properties":{"request_id":{"type":"string"},)"
                    R"("status_code":{"type":"integer"},"body":{},"duration_ms":{"type":"number"},)"
                    R"("session_key":{"type":["string","null"]}}})"},
                   {202, "Taken, and durable: the call will run.",
                    R"({"type":"object","properties":{"request_id":{"type":"string"},)"
                    R"("status":{"type":"string"},"session_seq":{"type":["integer","null"]}}})"}};
  route.errors = {Code::NotFound,           Code::Conflict, Code::QueueFull,
                  Code::Unprocessable,      Code::Timeout,  Code::FunctionCrashed,
                  Code::FunctionError,      Code::Fenced,   Code::Unavailable,
                  Code::InsufficientStorage};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
