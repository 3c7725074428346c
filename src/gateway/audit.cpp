#include "gateway/audit.h"

#include "base/time_text.h"
#include "gateway/api_key.h"
#include "gateway/list_text.h"
#include "http/openapi.h"
#include "http/problem.h"
#include "http/router.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <exception>
#include <utility>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;
using http::Method;

constexpr std::size_t kListed = 100;
constexpr std::size_t kLongestTarget = 512;

bool isAdministrative(const http::Route& route) {
  const bool only_reads = route.method == Method::Get || route.method == Method::Head;
  if (only_reads || route.scope.empty() || route.scope == "invoke") return false;
  const bool is_data = route.scope == "events:write" || route.scope == "flows:write" ||
                       route.pattern.ends_with("/events");
  return !is_data || route.method == Method::Put || route.method == Method::Delete;
}

AuditEntry entryOf(const http::Request& request, const http::Route& route) {
  AuditEntry entry;
  entry.action = http::operationId(route);
  entry.method = http::methodName(request.method);
  entry.target = withoutSecrets(request.path.substr(0, kLongestTarget));
  entry.request_id = request.id;
  entry.remote_address = request.peer_address;
  return entry;
}

void addPrincipal(AuditEntry& entry, const Principal& principal) {
  entry.principal_id = principal.id;
  entry.principal_name = principal.name;
}

void addOutcome(AuditEntry& entry, const std::optional<Result<http::Response>>& result) {
  if (!result) {
    entry.status = 500;
    entry.code = codeName(Code::Internal);
  } else if (*result) {
    entry.status = (*result)->status;
    // What was made has a name that its maker did not know.
    if (const auto made = (*result)->fields.find("Location"); !made.empty()) entry.target = made;
  } else {
    entry.status = http::statusOf(result->error().code());
    entry.code = codeName(result->error().code());
  }
}

Result<std::optional<Timestamp>> timeOf(const http::Query& query, std::string_view name) {
  NIMBUS_TRY(const auto text, query.text(name));
  if (!text) return std::optional<Timestamp>();
  const auto time = parseTime(*text);
  if (time) return std::optional(*time);
  return Error(Code::InvalidArgument, fmt::format("{}: {}", name, time.error().message()))
      .with("parameter", std::string(name));
}

Result<AuditLog::Filter> filterOf(const http::Query& query) {
  AuditLog::Filter filter;
  NIMBUS_TRY(filter.kind, query.text("kind"));
  NIMBUS_TRY(filter.principal, query.text("principal"));
  NIMBUS_TRY(filter.action, query.text("action"));
  NIMBUS_TRY(filter.target, query.text("target"));
  NIMBUS_TRY(filter.outcome, query.text("outcome"));
  NIMBUS_TRY(filter.since, timeOf(query, "since"));
  NIMBUS_TRY(filter.until, timeOf(query, "until"));
  return filter;
}

}  // namespace

Audit::Audit(AuditLog& log, const SteadyClock& clock, asio::any_io_executor executor)
    : log_(log), clock_(clock), executor_(std::move(executor)), tasks_(executor_, "audit") {}

void Audit::addTo(Metrics& metrics) {
  log_.addTo(metrics);
  counted_ = metrics.counter("nimbus_audit_folded_total",
                             "Refusals that the audit log tells only by their number.");
}

void Audit::start() {
  tasks_.add(writeCountsNowAndThen());
}

Task<> Audit::stop() {
  tasks_.cancel();
  co_await tasks_.join();
  co_await writeCounts();
}

Task<> Audit::writeCountsNowAndThen() {
  while (true) {
    asio::steady_timer timer(executor_, RefusalBudget::kWindow);
    co_await timer.async_wait(asio::use_awaitable);
    co_await writeCounts();
  }
}

Task<> Audit::writeCounts() {
  std::vector<AuditEntry> entries;
  for (RefusalBudget::Count& count : budget_.takeCounts()) {
    AuditEntry entry;
    entry.kind = AuditEntry::Kind::Refusal;
    entry.action = "manyRefusals";
    entry.remote_address = std::move(count.address);
    entry.count = count.refusals;
    entries.push_back(std::move(entry));
  }
  return log_.append(std::move(entries));
}

Task<> Audit::refused(const http::Request& request, const http::Route& route, const Error& error,
                      const Principal* principal) {
  if (!budget_.admit(request.peer_address, clock_.now())) {
    if (counted_) counted_->increment();
    co_return;
  }
  AuditEntry entry = entryOf(request, route);
  entry.kind = AuditEntry::Kind::Refusal;
  entry.status = http::statusOf(error.code());
  entry.code = codeName(error.code());
  if (principal != nullptr) addPrincipal(entry, *principal);
  std::vector<AuditEntry> entries;
  entries.push_back(std::move(entry));
  co_await log_.append(std::move(entries));
}

void Audit::watch(http::Router& router) {
  router.decorate([this](const http::Route& route, http::Handler handler) -> http::Handler {
    if (!isAdministrative(route)) return handler;
    return [this, &route, handler = std::move(handler)](http::Request& request) {
      if (principalOf(request).is_forwarded) return handler(request);
      return recorded(route, handler, request);
    };
  });
}

Task<Result<http::Response>> Audit::recorded(const http::Route& route, const http::Handler& handler,
                                             http::Request& request) {
  AuditEntry entry = entryOf(request, route);
  addPrincipal(entry, principalOf(request));
  std::optional<Result<http::Response>> result;
  std::exception_ptr thrown;
  try {
    result = co_await handler(request);
  } catch (...) {
    thrown = std::current_exception();
  }
  addOutcome(entry, result);
  // Its client may have left; what was done was done.
  co_await asio::this_coro::throw_if_cancelled(false);
  std::vector<AuditEntry> entries;
  entries.push_back(std::move(entry));
  co_await log_.append(std::move(entries));
  if (thrown) std::rethrow_exception(thrown);
  co_return *std::move(result);
}

Task<Result<http::Response>> Audit::list(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(std::string after, afterOf(query));
  NIMBUS_CO_TRY(AuditLog::Filter filter, filterOf(query));
  co_await writeCounts();
  NIMBUS_CO_TRY(const AuditLog::Page page,
                co_await log_.list(std::move(filter), std::move(after), limit));
  ListText text;
  for (const std::string& item : page.items) text.add(item);
  co_return http::Response::json(std::move(text).finish(page.next));
}

void Audit::addRoutes(http::Router& router) {
  http::Route route;
  route.pattern = "/api/v1/audit";
  route.operation_id = "listAudit";
  route.summary = "Administrative acts and refusals, newest first";
  route.description =
      "An act is there before its answer leaves, and so is a refusal; of a flood of refusals only "
      "the number (`count`) is told, per address. A page can have fewer items than `limit` and "
      "still a `next_cursor`.";
  route.tag = "Audit";
  route.scope = "admin";
  route.handler = [this](http::Request& request) { return list(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"},
                 {"cursor"},
                 {"kind", "", R"({"type":"string","enum":["act","refusal"]})"},
                 {"principal", "A key's id, or `administrator`."},
                 {"action", "An operation id of this document."},
                 {"target", "A path."},
                 {"outcome", "", R"({"type":"string","enum":["succeeded","failed","refused"]})"},
                 {"since", "From then on.", R"({"type":"string","format":"date-time"})"},
                 {"until", "Before then.", R"({"type":"string","format":"date-time"})"}};
  route.answers = {
      {200, "A page of entries.",
       R"({"type":"object","properties":{"items":{"type":"array","items":{"type":"object",)"
       R"("properties":{"id":{"type":"string"},"time":{"type":"string","format":"date-time"},)"
       R"("kind":{"type":"string"},"principal":{"type":["string","null"]},"principal_name":)"
       R"({"type":["string","null"]},"action":{"type":"string"},"method":{"type":["string",)"
       R"("null"]},"target":{"type":["string","null"]},"outcome":{"type":"string"},"status":)"
       R"({"type":"integer"},"code":{"type":["string","null"]},"request_id":{"type":["string",)"
       R"("null"]},"remote_address":{"type":["string","null"]},"count":{"type":"integer"}}}}}})"}};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
