#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "events/conversations.h"
#include "events/tracks.h"
#include "gateway/bell.h"
#include "gateway/events.h"
#include "gateway/list_text.h"
#include "http/event_stream.h"

#include <boost/asio/this_coro.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kListed = 100;
constexpr std::size_t kFollowedAtOnce = 100;
constexpr std::int64_t kMostConversations = 1000;

std::optional<std::uint64_t> numberOf(std::string_view text) {
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  if (text.empty() || failed != std::errc() || stopped != end || number > INT64_MAX) {
    return std::nullopt;
  }
  return number;
}

Result<std::optional<std::uint64_t>> numberField(const http::Request& request,
                                                 std::string_view name) {
  const std::string_view text = request.header(name);
  if (request.headerCount(name) == 0) return std::optional<std::uint64_t>();
  const auto number = numberOf(text);
  if (!number) {
    return Error(Code::InvalidArgument,
                 fmt::format("{}: this must be a whole number, 0 or more", name));
  }
  return number;
}

// `"3"` or `*`, which any version is.
Result<std::optional<store::Version>> ifMatch(const http::Request& request) {
  std::string_view text = request.header("If-Match");
  if (text.empty() || text == "*") return std::optional<store::Version>();
  if (text.size() > 2 && text.front() == '"' && text.back() == '"') {
    text = text.substr(1, text.size() - 2);
  }
  const auto number = numberOf(text);
  if (!number || *number == 0) {
    return Error(Code::InvalidArgument,
                 "If-Match: this must be a version in quotes, such as \"3\"");
  }
  return number;
}

std::string eventOf(const http::Request& request) {
  return std::string(request.parameters["event"]);
}

http::Response withVersion(http::Response response, store::Version version) {
  response.header("ETag", fmt::format("\"{}\"", version));
  return response;
}

std::string itemText(const events::AppendAnswer::Item& item) {
  std::string text = R"({"id":)";
  appendJsonString(text, item.id);
  fmt::format_to(std::back_inserter(text), R"(,"seq":{},"version":{}}})", item.seq, item.version);
  return text;
}

// One event is answered flat, an array as items.
std::string appendText(const events::AppendAnswer& answer, bool is_array) {
  std::string text;
  if (is_array) {
    text = R"({"items":[)";
    for (const auto& item : answer.items) {
      if (text.back() == '}') text += ',';
      text += itemText(item);
    }
    text += ']';
  } else {
    text = itemText(answer.items.front());
    text.pop_back();
  }
  text += R"(,"session_updated_at":)";
  appendJsonString(text, timeText(answer.session_updated_at));
  fmt::format_to(std::back_inserter(text), R"(,"evicted":{}}})", answer.evicted);
  return text;
}

std::string itemsText(const std::vector<store::Entry>& entries) {
  ListText text;
  for (const store::Entry& entry : entries) text.add(events::eventText(entry));
  return std::move(text).finish(std::nullopt);
}

Result<std::optional<Timestamp>> timeOf(const http::Query& query, std::string_view name) {
  NIMBUS_TRY(const auto text, query.text(name));
  if (!text) return std::optional<Timestamp>();
  if (const auto time = parseTime(*text)) return std::optional(std::max(*time, Timestamp()));
  // A + that was not encoded has become a space.
  std::string with_plus = *text;
  constexpr std::size_t kOffset = std::string_view("+00:00").size();
  if (with_plus.size() > kOffset && with_plus[with_plus.size() - kOffset] == ' ') {
    with_plus[with_plus.size() - kOffset] = '+';
  }
  if (const auto time = parseTime(with_plus)) return std::optional(std::max(*time, Timestamp()));
  return Error(Code::InvalidArgument,
               fmt::format("{}: this must be a time such as 2026-01-31T09:08:07.006Z", name))
      .with("parameter", std::string(name));
}

Result<events::ListQuery> listQueryOf(const http::Request& request) {
  const http::Query query = request.queryParameters();
  events::ListQuery list;
  NIMBUS_TRY(list.limit, query.limit(kListed));
  NIMBUS_TRY(const auto order, query.text("order"));
  if (order && *order != "asc" && *order != "desc") {
    return Error(Code::InvalidArgument, "order: this must be asc or desc")
        .with("parameter", "order");
  }
  if (order == "desc") list.order = store::Order::Descending;
  NIMBUS_TRY(const std::string after, afterOf(query));
  if (!after.empty()) {
    list.after = numberOf(after);
    if (!list.after) {
      return Error(Code::InvalidArgument, "this cursor is none that a list has answered with")
          .with("parameter", "cursor");
    }
  }
  for (std::size_t i = 0; i < events::kIndexes.size(); ++i) {
    NIMBUS_TRY(list.fields.at(i), query.text(events::kIndexes.at(i)));
  }
  NIMBUS_TRY(list.since, timeOf(query, "since"));
  NIMBUS_TRY(list.until, timeOf(query, "until"));
  NIMBUS_TRY(list.around, query.text("around"));
  NIMBUS_TRY(const auto offset, query.integer("offset", {}));
  if (offset) list.offset = static_cast<std::uint64_t>(*offset);
  if (list.offset && (list.isFiltered() || list.around || list.after)) {
    return Error(Code::InvalidArgument, "offset goes with limit and order only; use the cursor")
        .with("parameter", "offset");
  }
  if (list.around && (list.isFiltered() || list.after)) {
    return Error(Code::InvalidArgument, "around goes with limit and order only")
        .with("parameter", "around");
  }
  return list;
}

// The one number that a body of one number has.
Result<JsonValue> memberOf(std::string_view body, std::string_view name) {
  NIMBUS_TRY(const JsonValue root, parseJson(body));
  if (const auto value = root.member(name)) return *value;
  return Error(Code::InvalidArgument, fmt::format("{}: this must be given", name))
      .with("field", std::string(name));
}

Task<bool> send(http::EventStream& stream, const store::Entry& entry) {
  const std::string data = events::eventText(entry);
  const std::string id = std::to_string(entry.seq);
  http::Event event;
  event.data = data;
  event.id = id;
  co_return co_await stream.send(event);
}

// Until the client leaves, the server stops or the session is gone; a session that was made again
// is another one.
Task<> follow(store::Store& store, events::LogName log, std::uint64_t generation, store::Seq after,
              asio::any_io_executor executor, http::EventStream& stream) {
  const auto bell = std::make_shared<Bell>(executor);
  const auto watch = store.watch(log.session.partition(), [bell] { bell->ring(); });
  while (!stream.isEnded()) {
    std::vector<store::Query> queries;
    store::query::ScanLog scan;
    scan.log = log.log();
    scan.from = after + 1;
    scan.limit = kFollowedAtOnce;
    queries.emplace_back(std::move(scan));
    const auto found = co_await events::openLog(store, log, std::move(queries));
    if (!found || found->opened.session.generation != generation) co_return;
    const auto& page = found->opened.get<store::EntryPage>(0);
    for (const store::Entry& entry : page.items) {
      if (found->has_expired) break;
      if (!co_await send(stream, entry)) co_return;
      after = entry.seq;
    }
    if (!page.more || found->has_expired) co_await bell->wait();
  }
}

}  // namespace

events::LogName logOf(const http::Request& request) {
  const bool is_track = request.parameters.has("track");
  return {sessionOf(request), is_track ? std::string(request.parameters["track"]) : ""};
}

Events::Answering Events::appendEvents(http::Request& request) {
  const bool is_array = trimJson(request.body).starts_with('[');
  NIMBUS_CO_TRY(std::vector<events::NewEvent> given, events::parseEvents(request.body));
  for (const events::NewEvent& event : given) {
    NIMBUS_CO_CHECK(checkShared(request, std::string(request.parameters["user"]), event.delta));
  }
  events::AppendOptions options;
  NIMBUS_CO_TRY(options.expected_seq, numberField(request, "Nimbus-Expected-Seq"));
  NIMBUS_CO_TRY(options.generation, numberField(request, "Nimbus-Session-Generation"));
  NIMBUS_CO_TRY(const events::AppendAnswer answer,
                co_await log_.append(logOf(request), std::move(given), options));
  co_return http::Response::json(appendText(answer, is_array), answer.was_known ? 200 : 201);
}

Events::Answering Events::listEvents(http::Request& request) {
  NIMBUS_CO_TRY(events::ListQuery query, listQueryOf(request));
  NIMBUS_CO_TRY(const events::EventPage page, co_await log_.list(logOf(request), std::move(query)));
  ListText text;
  for (const store::Entry& entry : page.entries) text.add(events::eventText(entry));
  std::optional<std::string> next;
  if (page.next) next = std::to_string(*page.next);
  co_return http::Response::json(std::move(text).finish(next));
}

Events::Answering Events::showEvent(http::Request& request) {
  NIMBUS_CO_TRY(const store::Entry entry, co_await log_.get(logOf(request), eventOf(request)));
  co_return withVersion(http::Response::json(events::eventText(entry)), entry.version);
}

Events::Answering Events::putEvent(http::Request& request) {
  NIMBUS_CO_TRY(events::NewEvent event, events::parseEvent(request.body));
  NIMBUS_CO_TRY(const auto expected, ifMatch(request));
  std::string id = eventOf(request);
  if (!event.id.empty() && event.id != id) {
    co_return Error(Code::InvalidArgument, "id: an event keeps its id").with("field", "id");
  }
  NIMBUS_CO_TRY(const events::AppendAnswer answer,
                co_await log_.replace(logOf(request), std::move(id), std::move(event), expected));
  co_return withVersion(http::Response::json(appendText(answer, false)),
                        answer.items.front().version);
}

Events::Answering Events::deleteEvent(http::Request& request) {
  NIMBUS_CO_TRY(const auto expected, ifMatch(request));
  NIMBUS_CO_CHECK(co_await log_.remove(logOf(request), eventOf(request), expected));
  co_return http::Response::noContent();
}

Events::Answering Events::trimEvents(http::Request& request) {
  NIMBUS_CO_TRY(const JsonValue value, memberOf(request.body, "conversations"));
  const auto count = value.integer();
  if (!count || *count < 1 || *count > kMostConversations) {
    co_return Error(Code::InvalidArgument,
                    fmt::format("conversations: this must be 1 to {}", kMostConversations))
        .with("field", "conversations");
  }
  NIMBUS_CO_TRY(const std::vector<store::Entry> removed,
                co_await log_.trim(logOf(request), static_cast<std::size_t>(*count)));
  co_return http::Response::json(itemsText(removed));
}

Events::Answering Events::rewindEvents(http::Request& request) {
  NIMBUS_CO_TRY(const JsonValue root, parseJson(request.body));
  events::Log::RewindTo to;
  if (const auto event = root.string("to_event")) to.event = std::string(*event);
  const auto seq = root.integer("to_seq");
  if (seq && *seq >= 0) to.seq = static_cast<store::Seq>(*seq);
  if (to.event.has_value() == to.seq.has_value()) {
    co_return Error(Code::InvalidArgument,
                    "either to_event, an event's id, or to_seq, a seq, must be given");
  }
  NIMBUS_CO_TRY(const std::uint64_t removed, co_await log_.rewind(logOf(request), std::move(to)));
  NIMBUS_CO_TRY(const events::Session session, co_await sessions_.get(sessionOf(request)));
  co_return http::Response::json(
      fmt::format(R"({{"removed":{},"event_count":{},"session_updated_at":"{}"}})", removed,
                  session.event_count, timeText(session.updated_at)));
}

Events::Answering Events::followEvents(http::Request& request) {
  NIMBUS_CO_TRY(auto after, numberField(request, "Last-Event-ID"));
  // A browser cannot send the field with its first request.
  NIMBUS_CO_TRY(const auto given, request.queryParameters().integer("after", {}));
  if (!after && given) after = static_cast<std::uint64_t>(*given);
  const events::LogName log = logOf(request);
  NIMBUS_CO_TRY(const events::Session session, co_await sessions_.get(log.session));
  const auto executor = co_await asio::this_coro::executor;
  auto stream = std::make_shared<http::EventStream>(executor);
  co_return http::Response::events(
      stream, [this, log, generation = session.generation, after = after.value_or(0),
               executor](http::EventStream& events) {
        return follow(store_, log, generation, after, executor, events);
      });
}

}  // namespace nimbus::gateway
