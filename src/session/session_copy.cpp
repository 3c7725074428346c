#include "session/session_copy.h"

#include "base/json.h"
#include "base/json_text.h"
#include "session/invocation_record.h"
#include "state/stored.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

constexpr std::string_view kFormat = "nimbus-session";
// The first had no events.
constexpr std::int64_t kFormatVersion = 2;
// Each call that waits is two operations of a batch.
constexpr std::size_t kMostValues = 3'000;
constexpr std::size_t kMostWaiting = 2'000;

std::int64_t millisOf(const std::optional<Timestamp>& time) {
  return time ? time->time_since_epoch().count() : -1;
}

std::optional<Timestamp> timeOf(const JsonValue& from, std::string_view name) {
  const auto millis = from.integer(name);
  return millis && *millis >= 0 ? std::optional(Timestamp(Millis(*millis))) : std::nullopt;
}

void appendTime(std::string& json, std::string_view name, const std::optional<Timestamp>& time) {
  fmt::format_to(std::back_inserter(json), R"(,"{}":)", name);
  json += time ? fmt::format_int(millisOf(time)).str() : "null";
}

Error noDocument(std::string_view why) {
  return {Code::InvalidArgument, fmt::format("this is no exported session: {}", why)};
}

events::SessionName eventsOf(const SessionCopy& copy) {
  return {copy.function_id, std::string(events::kFunctionUser), copy.session_key};
}

store::query::ScanQueue scanOf(store::QueuePart part) {
  store::query::ScanQueue scan;
  scan.queue = kCallQueue;
  scan.part = part;
  scan.limit = kMostWaiting;
  return scan;
}

Result<> checkValues(const SessionCopy& copy) {
  for (const SessionCopy::Value& value : copy.state) {
    NIMBUS_CHECK(checkJson(value.value));
    if (value.version == 0 || value.version > store::kMaxVersion) {
      return noDocument("a value has no version");
    }
  }
  for (const SessionCopy::Waiting& one : copy.queue) {
    NIMBUS_CHECK(QueuedRequest::fromJson(one.request));
    if (one.seq >= copy.next_seq) return noDocument("a call has a number that is still to come");
  }
  if (copy.events) NIMBUS_CHECK(copy.events->check());
  return {};
}

}  // namespace

// Each part with its length before it.
std::string SessionCopy::content() const {
  std::string text;
  const auto add = [&](std::string_view part) {
    fmt::format_to(std::back_inserter(text), "{}:{}", part.size(), part);
  };
  const auto addNumber = [&](auto number) { add(fmt::format_int(number).str()); };
  add(function_id);
  add(session_key);
  addNumber(millisOf(created_at));
  addNumber(millisOf(last_access));
  addNumber(next_seq);
  addNumber(state.size());
  for (const Value& value : state) {
    add(value.key);
    add(value.value);
    addNumber(value.version);
    addNumber(millisOf(value.expires_at));
  }
  addNumber(queue.size());
  for (const Waiting& one : queue) {
    add(one.request);
    addNumber(one.seq);
    addNumber(millisOf(one.due_at));
  }
  if (events) events->visit(add);
  return text;
}

std::string SessionCopy::toJson(std::string_view checksum) const {
  std::string json = fmt::format(R"({{"format":"{}","format_version":{},"checksum":"{}",)", kFormat,
                                 kFormatVersion, checksum);
  json += R"("function_id":)";
  appendJsonString(json, function_id);
  json += R"(,"session_key":)";
  appendJsonString(json, session_key);
  appendTime(json, "created_at", created_at);
  appendTime(json, "last_access", last_access);
  fmt::format_to(std::back_inserter(json), R"(,"next_seq":{},"state":[)", next_seq);
  for (std::size_t i = 0; i < state.size(); ++i) {
    json += i == 0 ? R"({"key":)" : R"(,{"key":)";
    appendJsonString(json, state[i].key);
    json += R"(,"value":)";
    appendJsonString(json, state[i].value);
    fmt::format_to(std::back_inserter(json), R"(,"version":{})", state[i].version);
    appendTime(json, "expires_at", state[i].expires_at);
    json += '}';
  }
  json += R"(],"queue":[)";
  for (std::size_t i = 0; i < queue.size(); ++i) {
    json += i == 0 ? R"({"request":)" : R"(,{"request":)";
    appendJsonString(json, queue[i].request);
    fmt::format_to(std::back_inserter(json), R"(,"seq":{})", queue[i].seq);
    appendTime(json, "due_at", queue[i].due_at);
    json += '}';
  }
  json += R"(],"event_log":)";
  if (events) {
    events->appendTo(json);
  } else {
    json += "null";
  }
  json += '}';
  return json;
}

Result<SessionCopy::Parsed> SessionCopy::fromJson(std::string_view json) {
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  if (root.string("format") != kFormat) return noDocument("its \"format\" is another");
  const std::int64_t version = root.integer("format_version").value_or(0);
  if (version < 1 || version > kFormatVersion) {
    return noDocument("its \"format_version\" is not known here");
  }
  Parsed parsed;
  SessionCopy& copy = parsed.copy;
  parsed.checksum = std::string(root.string("checksum").value_or(""));
  copy.function_id = std::string(root.string("function_id").value_or(""));
  copy.session_key = std::string(root.string("session_key").value_or(""));
  copy.created_at = timeOf(root, "created_at").value_or(Timestamp());
  copy.last_access = timeOf(root, "last_access").value_or(Timestamp());
  copy.next_seq =
      static_cast<std::uint64_t>(std::max<std::int64_t>(1, root.integer("next_seq").value_or(1)));
  const auto state = root.member("state");
  const auto queue = root.member("queue");
  if (!state || !state->isArray() || !queue || !queue->isArray()) {
    return noDocument("it has no \"state\" and \"queue\"");
  }
  for (const JsonValue& one : state->elements()) {
    copy.state.push_back({std::string(one.string("key").value_or("")),
                          std::string(one.string("value").value_or("")),
                          static_cast<store::Version>(one.integer("version").value_or(0)),
                          timeOf(one, "expires_at")});
  }
  for (const JsonValue& one : queue->elements()) {
    copy.queue.push_back({std::string(one.string("request").value_or("")),
                          static_cast<std::uint64_t>(one.integer("seq").value_or(0)),
                          timeOf(one, "due_at")});
  }
  if (const auto log = root.member("event_log"); log && log->isObject()) {
    NIMBUS_TRY(copy.events, EventCopy::fromJson(*log));
  }
  if (copy.state.size() > kMostValues || copy.queue.size() > kMostWaiting) {
    return Error(Code::TooLarge, "the session is too large to be imported at once");
  }
  NIMBUS_CHECK(checkValues(copy));  // parses: the last thing to be done with the document
  return parsed;
}

Task<Result<SessionCopy>> copySession(store::Store& store, std::string function_id,
                                      std::string session_key) {
  const store::Partition partition = sessionPartition(function_id, session_key);
  store::query::ScanRecords values;
  values.space = state::kSpace;
  values.limit = kMostValues;
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  queries.emplace_back(std::move(values));
  queries.emplace_back(scanOf(store::QueuePart::Line));
  queries.emplace_back(scanOf(store::QueuePart::Scheduled));
  NIMBUS_CO_TRY(auto answers, co_await store.read(partition, std::move(queries)));
  const auto stored = std::get<std::optional<store::Record>>(std::move(answers[0]));
  if (!stored) {
    co_return Error(Code::NotFound,
                    fmt::format("there is no session \"{}\"", printable(session_key)));
  }
  SessionCopy copy;
  NIMBUS_CO_TRY(const SessionRecord record, SessionRecord::fromJson(stored->value));
  copy.function_id = std::move(function_id);
  copy.session_key = std::move(session_key);
  copy.created_at = record.created_at;
  copy.last_access = record.last_access;
  copy.next_seq = record.reserved + 1;
  auto& page = std::get<store::RecordPage>(answers[1]);
  bool more = page.more;
  std::size_t bytes = 0;
  for (store::Record& value : page.items) {
    bytes += value.key.size() + value.value.size();
    copy.state.push_back({value.key, std::move(value.value), value.version, value.expires_at});
  }
  for (const std::size_t part : {2U, 3U}) {
    const auto& items = std::get<store::ItemPage>(answers[part]);
    more = more || items.more;
    for (const store::QueueItem& item : items.items) {
      NIMBUS_CO_TRY(const auto known,
                    co_await store::getRecord(store, partition, kInvocationSpace, item.id));
      if (!known) continue;  // it has ended meanwhile
      NIMBUS_CO_TRY(const InvocationRecord call, InvocationRecord::fromJson(known->value));
      if (call.isOver()) continue;
      bytes += item.payload.size();
      copy.queue.push_back(
          {item.payload, call.seq,
           item.part == store::QueuePart::Scheduled ? std::optional(item.due_at) : std::nullopt});
    }
  }
  if (more || copy.queue.size() > kMostWaiting || bytes > kMostCarried) {
    co_return Error(Code::TooLarge, "the session is too large to be exported at once");
  }
  NIMBUS_CO_TRY(copy.events, co_await copyEvents(store, eventsOf(copy), kMostCarried - bytes));
  co_return copy;
}

store::Batch importBatch(const SessionCopy& copy, store::Version version, std::string_view prefix,
                         Timestamp now) {
  const LineName line{copy.function_id, copy.session_key};
  SessionRecord record;
  record.reserved = copy.next_seq - 1;
  record.created_at = copy.created_at;
  record.last_access = now;
  record.has_work = !copy.queue.empty();
  store::Batch batch;
  store::op::Put put;
  put.space = kSessionSpace;
  put.key = kSessionRecord;
  put.value = record.toJson();
  put.expected = 0;
  put.version = version;
  batch.operations.emplace_back(std::move(put));
  for (const SessionCopy::Value& value : copy.state) {
    store::op::Put one;
    one.space = state::kSpace;
    one.key = value.key;
    one.value = value.value;
    one.expiry.at = value.expires_at;
    one.version = value.version;
    batch.operations.emplace_back(std::move(one));
  }
  for (std::size_t i = 0; i < copy.queue.size(); ++i) {
    const SessionCopy::Waiting& waiting = copy.queue[i];
    const std::string id = fmt::format("{}.{}", prefix, i + 1);
    InvocationRecord call;
    call.function_id = copy.function_id;
    call.session_key = copy.session_key;
    call.seq = waiting.seq;
    call.created_at = now;
    call.due_at = waiting.due_at;
    batch.operations.emplace_back(store::op::Push{kCallQueue, id, waiting.request, waiting.due_at});
    batch.operations.emplace_back(putInvocation(id, call, std::nullopt));
    batch.listings.push_back(listInvocation(id, line));
    if (waiting.due_at) batch.listings.push_back(listDue(*waiting.due_at, id, line));
  }
  batch.listings.push_back({sessionDirectory(copy.function_id), copy.session_key, ""});
  if (record.has_work) batch.listings.push_back(listWork(line));
  return batch;
}

}  // namespace nimbus::session
