#include "gateway/invocations.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "http/problem.h"
#include "http/router.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <utility>

namespace nimbus::gateway {
namespace {

using session::Call;
using session::CallPtr;
using session::Outcome;

constexpr std::int64_t kLongestTimeoutMs = 24LL * 3600 * 1000;

// The options of a call, wherever they were given.
struct Options {
  std::optional<std::string> session_key;
  std::string payload = "null";
  std::optional<std::int64_t> timeout_ms;
  std::optional<std::string> busy;
  std::optional<std::string> mode;
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
    } else {
      return Error(Code::InvalidArgument,
                   fmt::format("there is no \"{}\" in a call; what the function is to get goes "
                               "into \"payload\"",
                               printable(member.name)));
    }
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
  NIMBUS_TRY(auto mode, query.text("mode"));
  if (mode) options.mode = std::move(mode);
  if (options.mode && *options.mode != "sync") {
    return Error(Code::InvalidArgument,
                 "this version answers calls only when they are done: "
                 "leave \"mode\" out");
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

http::Response Invocations::respond(const Call& call) const {
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
  response.header("Nimbus-Node", node_id_);
  return response;
}

Task<Result<http::Response>> Invocations::invoke(http::Request& request) {
  const std::string_view id = request.parameters["id"];
  const session::FunctionPtr function = find_(id);
  if (!function) co_return noFunction(id);
  NIMBUS_CO_TRY(Options options, readOptions(request));
  CallPtr call(new Call);
  call->function = function;
  call->request_id = std::string(request.id);
  call->session_key = std::move(options.session_key);
  call->payload = std::move(options.payload);
  call->traceparent = std::string(request.traceparent);
  call->timeout = options.timeout_ms ? Millis(*options.timeout_ms) : function->timeout;
  call->only_if_idle = options.busy == "reject";
  NIMBUS_CO_CHECK(calls_.submit(call));
  const boost::asio::cancellation_state cancellation =
      co_await boost::asio::this_coro::cancellation_state;
  const AbandonIfGone abandon(cancellation.slot(), calls_, call);
  // The call is seen through to its end, whether or not its client is there to hear of it.
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await call->settled.wait();
  const std::optional<Error>& error = call->outcome.error;
  function->metrics->callEnded(error ? std::optional(error->code()) : std::nullopt);
  co_return respond(*call);
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
      "`Nimbus-Session-Seq`, and the answer comes when all that the call wrote is durable.";
  route.tag = "Functions";
  route.scope = "invoke";
  route.query = {{"session_key", "Also as a body member or as the header `Nimbus-Session-Key`."},
                 {"timeout_ms", "Instead of the function's own.", R"({"type":"integer"})"},
                 {"busy", "`reject`: 409 if the session is busy.",
                  R"({"type":"string","enum":["queue","reject"]})"}};
  route.body = {{"What the function gets is `payload`.",
                 R"({"type":"object","properties":{"payload":{},"session_key":{"type":"string"},)"
                 R"("timeout_ms":{"type":"integer"},"busy":{"type":"string"}}})"}};
  route.answers = {{200, "What the function returned.",
                    R"({"type":"object","properties":{"request_id":{"type":"string"},)"
                    R"("status_code":{"type":"integer"},"body":{},"duration_ms":{"type":"number"},)"
                    R"("session_key":{"type":["string","null"]}}})"}};
  route.errors = {Code::NotFound, Code::Conflict,        Code::QueueFull,
                  Code::Timeout,  Code::FunctionCrashed, Code::FunctionError,
                  Code::Fenced,   Code::Unavailable,     Code::InsufficientStorage};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
