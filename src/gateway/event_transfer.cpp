#include "gateway/event_transfer.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "events/open_session.h"
#include "gateway/checksum.h"
#include "gateway/list_text.h"
#include "http/router.h"
#include "session/event_copy.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::size_t kListed = 100;
constexpr std::string_view kFormat = "nimbus-event-log";
constexpr std::int64_t kFormatVersion = 1;
const std::string kSessions = "/api/v1/apps/{app:name}/users/{user}/sessions";

std::string contentOf(const session::EventCopy& copy) {
  std::string text;
  copy.visit([&](std::string_view part) {
    fmt::format_to(std::back_inserter(text), "{}:{}", part.size(), part);
  });
  return text;
}

struct Document {
  std::string session;
  std::string checksum;
  session::EventCopy log;
};

Result<Document> readDocument(std::string_view body) {
  NIMBUS_TRY(const JsonValue root, parseJson(body));
  const auto log = root.member("event_log");
  if (root.string("format") != kFormat || root.integer("format_version") != kFormatVersion ||
      !log) {
    return Error(Code::InvalidArgument, "this is no exported event log");
  }
  Document document;
  document.session = std::string(root.string("session").value_or(""));
  document.checksum = std::string(root.string("checksum").value_or(""));
  NIMBUS_TRY(document.log, session::EventCopy::fromJson(*log));
  NIMBUS_CHECK(document.log.check());  // parses: the last thing to be done with the document
  return document;
}

http::Route routeOf(http::Method method, std::string pattern, std::string summary,
                    std::string scope) {
  http::Route route;
  route.method = method;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "Event logs";
  route.scope = std::move(scope);
  route.errors = {Code::NotFound, Code::Unavailable};
  return route;
}

}  // namespace

Task<Result<http::Response>> EventTransfer::apps(http::Request& request) {
  const http::Query query = request.queryParameters();
  NIMBUS_CO_TRY(const std::size_t limit, query.limit(kListed));
  NIMBUS_CO_TRY(const std::string after, afterOf(query));
  NIMBUS_CO_TRY(const store::DirectoryPage page,
                co_await store_.readDirectory(events::kAppDirectory, after, "", limit));
  ListText text;
  std::optional<std::string> next;
  for (const store::DirectoryEntry& entry : page.items) {
    std::string item = R"({"app":)";
    appendJsonString(item, entry.key);
    item += '}';
    text.add(std::move(item));
    if (page.more) next = entry.key;
  }
  co_return http::Response::json(std::move(text).finish(next));
}

Task<Result<http::Response>> EventTransfer::exportLog(http::Request& request) {
  const events::SessionName name{std::string(request.parameters["app"]),
                                 std::string(request.parameters["user"]),
                                 std::string(request.parameters["session"])};
  NIMBUS_CO_TRY(const auto copy, co_await session::copyEvents(store_, name, session::kMostCarried));
  if (!copy) co_return events::noSession(name);
  std::string text = fmt::format(R"({{"format":"{}","format_version":{},"checksum":"{}","app":)",
                                 kFormat, kFormatVersion, checksumOf(contentOf(*copy)));
  appendJsonString(text, name.app);
  text += R"(,"user":)";
  appendJsonString(text, name.user);
  text += R"(,"session":)";
  appendJsonString(text, name.id);
  text += R"(,"event_log":)";
  copy->appendTo(text);
  text += '}';
  co_return http::Response::json(std::move(text));
}

Task<Result<http::Response>> EventTransfer::importLog(http::Request& request) {
  NIMBUS_CO_TRY(Document document, readDocument(request.body));
  if (document.checksum != checksumOf(contentOf(document.log))) {
    co_return Error(Code::Unprocessable, "the checksum does not fit: the document was changed");
  }
  const events::SessionName name{std::string(request.parameters["app"]),
                                 std::string(request.parameters["user"]), document.session};
  NIMBUS_CO_CHECK(checkText("session", name.id));
  const std::size_t count = document.log.events.size();
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  session::EventImport import(store_, name, std::move(document.log));
  const Result<> begun = co_await import.begin(random_.next());
  if (!begun) {
    co_await import.giveUp();
    co_return begun.error();
  }
  store::Batch batch;
  import.addTo(batch, random_, store_.now());
  store::PendingCommit commit = store_.commit(name.partition(), import.fence(), std::move(batch));
  const auto done = co_await commit.done();
  if (!done) {
    co_await import.giveUp();
    co_return done.error();
  }
  std::string text = R"({"session":)";
  appendJsonString(text, name.id);
  fmt::format_to(std::back_inserter(text), R"(,"events":{}}})", count);
  co_return http::Response::json(std::move(text), 201);
}

void EventTransfer::addRoutes(http::Router& router) {
  using http::Method;
  http::Route route =
      routeOf(Method::Get, "/api/v1/apps", "Apps that have event logs", "events:read");
  route.handler = [this](http::Request& request) { return apps(request); };
  route.query = {{"limit", "", R"({"type":"integer"})"}, {"cursor"}};
  route.answers = {{200, "By name.", R"({"type":"object"})"}};
  router.add(std::move(route));

  route = routeOf(Method::Get, kSessions + "/{session}/export", "An event log as a document",
                  "events:read");
  route.handler = [this](http::Request& request) { return exportLog(request); };
  route.answers = {
      {200, "Events, tracks, state and summaries, with a checksum.", R"({"type":"object"})"}};
  route.errors.push_back(Code::TooLarge);
  router.add(std::move(route));

  route = routeOf(Method::Post, kSessions + ":import", "Make an event log of such a document",
                  "events:write");
  route.description =
      "409 if there is a session of that id. Events are numbered anew, without gaps. The document "
      "may be longer than other bodies.";
  route.handler = [this](http::Request& request) { return importLog(request); };
  route.body = {{"What export gave.", R"({"type":"object"})"}};
  route.max_body_bytes = 2 * session::kMostCarried;
  route.answers = {{201, "What was imported.", R"({"type":"object"})"}};
  route.errors = {Code::Conflict, Code::Unprocessable, Code::Unavailable};
  router.add(std::move(route));
}

}  // namespace nimbus::gateway
