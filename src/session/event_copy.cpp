#include "session/event_copy.h"

#include "base/ids.h"
#include "base/json_text.h"
#include "events/app_settings.h"
#include "events/event.h"
#include "events/open_session.h"
#include "events/shared_state.h"
#include "events/summaries.h"
#include "events/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

constexpr const char* kLease = "session-import";
constexpr std::chrono::seconds kPatience{60};
constexpr std::size_t kAtOnce = 100;  // events may be large
constexpr std::size_t kMostSummaries = 1'000;

Error noDocument(std::string_view why) {
  return {Code::InvalidArgument, fmt::format("this is no exported event log: {}", why)};
}

Error tooLarge() {
  return {Code::TooLarge, "the session's event log is too large to be exported at once"};
}

std::string hexOf(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    fmt::format_to(std::back_inserter(text), "{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

int digitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

std::optional<std::string> bytesOf(std::string_view hex) {
  std::string bytes;
  if (hex.size() % 2 != 0) return std::nullopt;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    const int high = digitOf(hex[i]);
    const int low = digitOf(hex[i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    bytes += static_cast<char>(high * 16 + low);
  }
  return bytes;
}

std::string textOf(const JsonValue& from, std::string_view name) {
  return std::string(from.string(name).value_or(""));
}

void appendEvents(std::string& json, const std::vector<EventCopy::Event>& events) {
  json += '[';
  for (std::size_t i = 0; i < events.size(); ++i) {
    json += i == 0 ? R"({"id":)" : R"(,{"id":)";
    appendJsonString(json, events[i].id);
    fmt::format_to(std::back_inserter(json), R"(,"seq":{},"event":)", events[i].seq);
    appendJsonString(json, events[i].event);
    fmt::format_to(std::back_inserter(json), R"(,"fingerprint":"{}"}})",
                   hexOf(events[i].fingerprint));
  }
  json += ']';
}

void appendMembers(std::string& json, std::string_view name,
                   const std::vector<EventCopy::Member>& members) {
  fmt::format_to(std::back_inserter(json), R"(,"{}":[)", name);
  for (std::size_t i = 0; i < members.size(); ++i) {
    json += i == 0 ? R"({"key":)" : R"(,{"key":)";
    appendJsonString(json, members[i].key);
    json += R"(,"value":)";
    appendJsonString(json, members[i].value);
    json += '}';
  }
  json += ']';
}

Result<std::vector<EventCopy::Event>> readEvents(const JsonValue& from) {
  std::vector<EventCopy::Event> events;
  if (const auto array = from.member("events")) {
    for (const JsonValue& one : array->elements()) {
      const auto fingerprint = bytesOf(one.string("fingerprint").value_or(""));
      if (!fingerprint) return noDocument("a fingerprint is no hexadecimal number");
      events.push_back({textOf(one, "id"), static_cast<store::Seq>(one.integer("seq").value_or(0)),
                        textOf(one, "event"), *fingerprint});
    }
  }
  return events;
}

std::vector<EventCopy::Member> readMembers(const JsonValue& from, std::string_view name) {
  std::vector<EventCopy::Member> members;
  if (const auto array = from.member(name)) {
    for (const JsonValue& one : array->elements()) {
      members.push_back({textOf(one, "key"), textOf(one, "value")});
    }
  }
  return members;
}

Result<> checkEvents(const std::vector<EventCopy::Event>& events) {
  for (const EventCopy::Event& event : events) {
    NIMBUS_CHECK(checkText("event id", event.id));
    if (!events::termsOf(event.event, {})) return noDocument("an event cannot be read");
  }
  return {};
}

Result<> checkMembers(const std::vector<EventCopy::Member>& members) {
  for (const EventCopy::Member& member : members) NIMBUS_CHECK(checkJson(member.value));
  return {};
}

// Where the newest event stands now that a summary knows of.
std::string renumbered(const std::string& json, const EventCopy& copy) {
  const Result<JsonValue> root = parseJson(json);
  events::Summary summary;
  if (!root) return json;
  summary.text = textOf(*root, "text");
  summary.last_event_id = textOf(*root, "last_event_id");
  summary.filter_key = textOf(*root, "filter_key");
  const auto before = static_cast<store::Seq>(root->integer("last_seq").value_or(0));
  summary.last_seq = static_cast<store::Seq>(
      std::count_if(copy.events.begin(), copy.events.end(),
                    [&](const EventCopy::Event& event) { return event.seq <= before; }));
  return summary.toJson();
}

store::op::Put putOf(const char* space, std::string key, std::string value) {
  store::op::Put put;
  put.space = space;
  put.key = std::move(key);
  put.value = std::move(value);
  return put;
}

store::query::ScanRecords scanOf(const char* space, std::size_t limit) {
  store::query::ScanRecords scan;
  scan.space = space;
  scan.limit = limit;
  return scan;
}

struct ReadLog {
  std::vector<EventCopy::Event> events;
  std::size_t bytes = 0;
};

// Up to `last`.
Task<Result<ReadLog>> readLog(store::Store& store, store::Partition partition, std::string log,
                              store::Seq last, std::size_t room) {
  ReadLog read;
  store::query::ScanLog scan;
  scan.log = std::move(log);
  scan.to = last;
  scan.limit = kAtOnce;
  bool more = last > 0;
  while (more) {
    NIMBUS_CO_TRY(store::EntryPage page,
                  co_await store::ask<store::EntryPage>(store, partition, scan));
    more = page.more && !page.items.empty();
    for (store::Entry& entry : page.items) {
      scan.from = entry.seq + 1;
      read.bytes += entry.id.size() + entry.value.size();
      if (read.bytes > room) co_return tooLarge();
      read.events.push_back(
          {std::move(entry.id), entry.seq, std::move(entry.value), std::move(entry.fingerprint)});
    }
  }
  co_return read;
}

Result<std::vector<EventCopy::Member>> membersOf(const store::Answer& answer, std::size_t& room) {
  std::vector<EventCopy::Member> members;
  const auto& page = std::get<store::RecordPage>(answer);
  if (page.more) return tooLarge();
  for (const store::Record& record : page.items) {
    const std::size_t size = record.key.size() + record.value.size();
    if (size > room) return tooLarge();
    room -= size;
    members.push_back({record.key, record.value});
  }
  return members;
}

}  // namespace

void EventCopy::visit(const std::function<void(std::string_view)>& add) const {
  const auto addNumber = [&](auto number) { add(fmt::format_int(number).str()); };
  const auto addEvents = [&](const std::vector<Event>& all) {
    addNumber(all.size());
    for (const Event& event : all) {
      add(event.id);
      addNumber(event.seq);
      add(event.event);
      add(event.fingerprint);
    }
  };
  const auto addMembers = [&](const std::vector<Member>& all) {
    addNumber(all.size());
    for (const Member& member : all) {
      add(member.key);
      add(member.value);
    }
  };
  add(title);
  addNumber(created_at.time_since_epoch().count());
  addNumber(evicted);
  addEvents(events);
  addNumber(tracks.size());
  for (const Track& track : tracks) {
    add(track.name);
    add(track.settings);
    addEvents(track.events);
  }
  addMembers(state);
  addMembers(summaries);
}

void EventCopy::appendTo(std::string& json) const {
  json += R"({"title":)";
  appendJsonString(json, title);
  fmt::format_to(std::back_inserter(json), R"(,"created_at":{},"evicted_count":{},"events":)",
                 created_at.time_since_epoch().count(), evicted);
  appendEvents(json, events);
  json += R"(,"tracks":[)";
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    json += i == 0 ? R"({"track":)" : R"(,{"track":)";
    appendJsonString(json, tracks[i].name);
    json += R"(,"settings":)";
    appendJsonString(json, tracks[i].settings);
    json += R"(,"events":)";
    appendEvents(json, tracks[i].events);
    json += '}';
  }
  json += ']';
  appendMembers(json, "state", state);
  appendMembers(json, "summaries", summaries);
  json += '}';
}

Result<EventCopy> EventCopy::fromJson(const JsonValue& root) {
  EventCopy copy;
  copy.title = textOf(root, "title");
  copy.created_at = Timestamp(Millis(root.integer("created_at").value_or(0)));
  copy.evicted = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, root.integer("evicted_count").value_or(0)));
  NIMBUS_TRY(copy.events, readEvents(root));
  if (const auto tracks = root.member("tracks")) {
    for (const JsonValue& one : tracks->elements()) {
      Track track{textOf(one, "track"), textOf(one, "settings"), {}};
      NIMBUS_TRY(track.events, readEvents(one));
      copy.tracks.push_back(std::move(track));
    }
  }
  copy.state = readMembers(root, "state");
  copy.summaries = readMembers(root, "summaries");
  return copy;
}

Result<> EventCopy::check() const {
  NIMBUS_CHECK(checkEvents(events));
  for (const Track& track : tracks) {
    NIMBUS_CHECK(checkName("track", track.name));
    NIMBUS_CHECK(checkJson(track.settings));
    NIMBUS_CHECK(checkEvents(track.events));
  }
  NIMBUS_CHECK(checkMembers(state));
  NIMBUS_CHECK(checkMembers(summaries));
  if (tracks.size() > events::kMaxTracks || state.size() > events::kMaxStateKeys ||
      summaries.size() > kMostSummaries) {
    return Error(Code::TooLarge, "the session's event log is too large to be imported at once");
  }
  return {};
}

Task<Result<std::optional<EventCopy>>> copyEvents(store::Store& store, events::SessionName name,
                                                  std::size_t room) {
  const store::Partition partition = name.partition();
  std::vector<store::Query> queries;
  queries.emplace_back(scanOf(events::kTrackSpace, events::kMaxTracks));
  queries.emplace_back(scanOf(events::kStateSpace, events::kMaxStateKeys));
  queries.emplace_back(scanOf(events::kSummarySpace, kMostSummaries));
  const Result<events::Opened> opened =
      co_await events::openSession(store, std::move(name), std::move(queries));
  if (!opened) {
    if (opened.error().code() == Code::NotFound) co_return std::optional<EventCopy>();
    co_return opened.error();
  }
  EventCopy copy;
  copy.title = opened->session.title;
  copy.created_at = opened->session.created_at;
  copy.evicted = opened->session.evicted_count;
  NIMBUS_CO_TRY(ReadLog own, co_await readLog(store, partition, events::kEventLog,
                                              opened->session.last_seq, room));
  copy.events = std::move(own.events);
  room -= own.bytes;
  NIMBUS_CO_TRY(const std::vector<EventCopy::Member> tracks, membersOf(opened->answers[0], room));
  for (const EventCopy::Member& track : tracks) {
    const std::string log = events::LogName{opened->session.name, track.key}.log();
    NIMBUS_CO_TRY(ReadLog read, co_await readLog(store, partition, log, UINT64_MAX, room));
    copy.tracks.push_back({track.key, track.value, std::move(read.events)});
    room -= read.bytes;
  }
  NIMBUS_CO_TRY(copy.state, membersOf(opened->answers[1], room));
  NIMBUS_CO_TRY(copy.summaries, membersOf(opened->answers[2], room));
  co_return std::optional(std::move(copy));
}

// ---- Import

Task<Result<>> EventImport::begin(std::uint64_t nonce) {
  NIMBUS_CO_TRY(const events::AppSettings settings,
                co_await events::readSettings(store_, name_.app));
  session_ttl_ = settings.session_ttl;
  NIMBUS_CO_TRY(const auto there, co_await events::findSession(store_, name_));
  if (there) {
    co_return Error(
        Code::Conflict,
        fmt::format("there is an event log of session \"{}\"; delete it first", name_.id));
  }
  store::Batch batch;
  store::op::Acquire acquire;
  acquire.lease = kLease;
  acquire.holder = "import";
  acquire.nonce = nonce;
  acquire.ttl = kPatience;
  batch.operations.emplace_back(std::move(acquire));
  // What is left of a log that has expired, or of an import that was cut off.
  batch.conditions.emplace_back(store::require::RecordVersion{events::kSpace, events::kClock, 0});
  for (const char* space :
       {events::kSpace, events::kStateSpace, events::kTrackSpace, events::kSummarySpace}) {
    batch.operations.emplace_back(store::op::EraseSpace{space});
  }
  batch.operations.emplace_back(store::op::DropLog{events::kEventLog});
  for (const EventCopy::Track& track : copy_.tracks) {
    batch.operations.emplace_back(store::op::DropLog{events::LogName{name_, track.name}.log()});
  }
  store::PendingCommit commit = store_.commit(name_.partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_TRY(const auto done, co_await commit.done());
  fence_ = store::Fence{kLease, done.get<store::LeaseGranted>(0).token};
  NIMBUS_CO_CHECK(co_await append(std::nullopt, settings.indexes));
  for (std::size_t i = 0; i < copy_.tracks.size(); ++i) {
    NIMBUS_CO_CHECK(co_await append(i, settings.indexes));
  }
  co_return Result<>();
}

Task<Result<>> EventImport::append(std::optional<std::size_t> track,
                                   std::vector<std::string> indexes) {
  const std::vector<EventCopy::Event>& events = track ? copy_.tracks[*track].events : copy_.events;
  const std::string log =
      events::LogName{name_, track ? copy_.tracks[*track].name : std::string()}.log();
  for (std::size_t begin = 0; begin < events.size(); begin += kAtOnce) {
    store::Batch batch;
    const std::size_t end = std::min(events.size(), begin + kAtOnce);
    for (std::size_t i = begin; i < end; ++i) {
      store::op::Append append;
      append.log = log;
      append.id = events[i].id;
      append.value = events[i].event;
      append.terms = events::termsOf(events[i].event, indexes).value_or(std::vector<store::Term>());
      append.fingerprint = events[i].fingerprint;
      batch.operations.emplace_back(std::move(append));
    }
    batch.operations.emplace_back(store::op::Renew{kLease, fence_->token, kPatience});
    store::PendingCommit commit = store_.commit(name_.partition(), fence_, std::move(batch));
    NIMBUS_CO_CHECK(co_await commit.done());
  }
  co_return Result<>();
}

void EventImport::addTo(store::Batch& batch, Random& random, Timestamp now) const {
  events::Session session;
  session.name = name_;
  session.title = copy_.title;
  session.created_at = copy_.created_at;
  session.generation = events::newGeneration(now, random);
  events::AppSettings settings;
  settings.session_ttl = session_ttl_;
  batch.conditions.emplace_back(
      store::require::RecordVersion{events::kSpace, events::kIdentity, 0});
  batch.operations.emplace_back(events::identityPut(session));
  batch.operations.emplace_back(events::clockPut(settings, now));
  if (copy_.evicted > 0) batch.operations.emplace_back(events::countEvicted(copy_.evicted));
  for (const EventCopy::Track& track : copy_.tracks) {
    batch.operations.emplace_back(putOf(events::kTrackSpace, track.name, track.settings));
  }
  for (const EventCopy::Member& member : copy_.state) {
    batch.operations.emplace_back(putOf(events::kStateSpace, member.key, member.value));
  }
  for (const EventCopy::Member& member : copy_.summaries) {
    batch.operations.emplace_back(
        putOf(events::kSummarySpace, member.key, renumbered(member.value, copy_)));
  }
  std::vector<store::Listing> listings = events::moved(name_, std::nullopt, now);
  listings.push_back({events::kAppDirectory, name_.app, ""});
  std::move(listings.begin(), listings.end(), std::back_inserter(batch.listings));
  batch.operations.emplace_back(store::op::Release{fence_->lease, fence_->token});
}

Task<> EventImport::giveUp() {
  if (!fence_) co_return;
  store::Batch batch;
  batch.operations.emplace_back(store::op::DropLog{events::kEventLog});
  for (const EventCopy::Track& track : copy_.tracks) {
    batch.operations.emplace_back(store::op::DropLog{events::LogName{name_, track.name}.log()});
  }
  batch.operations.emplace_back(store::op::Release{fence_->lease, fence_->token});
  batch.conditions.emplace_back(
      store::require::RecordVersion{events::kSpace, events::kIdentity, 0});
  store::PendingCommit commit = store_.commit(name_.partition(), fence_, std::move(batch));
  static_cast<void>(co_await commit.done());
}

}  // namespace nimbus::session
