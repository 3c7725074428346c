#include "events/event.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"

#include <fmt/format.h>
#include <sodium.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <set>
#include <utility>

namespace nimbus::events {
namespace {

constexpr std::string_view kReservedId = "stream";  // a path of its own

// What the server says of an event; a client that sends back what it was given says nothing by it.
bool isServers(std::string_view name) {
  return name == "seq" || name == "version" || name == "created_at";
}

Error badField(std::string_view name, std::string_view why) {
  return Error(Code::InvalidArgument, fmt::format("{}: {}", name, why))
      .with("field", std::string(name));
}

// The text of a field that may be absent; null counts as absent.
Result<std::optional<std::string>> textOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  if (value.kind() == JsonValue::Kind::Null) return std::optional<std::string>();
  const auto text = value.string();
  if (!text) return badField(member.name, "this must be a string");
  std::string copy(*text);
  NIMBUS_CHECK(checkText(member.name, copy));
  return std::optional(std::move(copy));
}

// The same event has the same members, in whatever order.
std::string fingerprintOf(std::vector<RawMember> members) {
  std::sort(members.begin(), members.end(),
            [](const RawMember& a, const RawMember& b) { return a.name < b.name; });
  crypto_generichash_state state;
  constexpr std::size_t kBytes = 16;
  crypto_generichash_init(&state, nullptr, 0, kBytes);
  const auto add = [&](std::string_view text) {
    const std::uint64_t size = text.size();
    // NOLINTBEGIN(*-reinterpret-cast): bytes are bytes
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(&size), sizeof size);
    crypto_generichash_update(&state, reinterpret_cast<const unsigned char*>(text.data()),
                              text.size());
    // NOLINTEND(*-reinterpret-cast)
  };
  for (const RawMember& member : members) {
    if (isServers(member.name)) continue;
    add(member.name);
    add(member.value);
  }
  std::array<unsigned char, kBytes> hash{};
  crypto_generichash_final(&state, hash.data(), hash.size());
  return std::string(hash.begin(), hash.end());
}

void appendMember(std::string& out, std::string_view name, std::string_view value) {
  if (!out.empty()) out += ',';
  appendJsonString(out, name);
  out += ':';
  out += value;
}

std::size_t indexOf(std::string_view name) {
  return static_cast<std::size_t>(std::find(kIndexes.begin(), kIndexes.end(), name) -
                                  kIndexes.begin());
}

Result<> readMember(NewEvent& event, const RawMember& member) {
  if (member.name == "id") {
    NIMBUS_TRY(const auto id, textOf(member));
    event.id = id.value_or("");
    if (event.id == kReservedId) return badField("id", "\"stream\" is reserved");
    return {};
  }
  if (member.name == "timestamp") {
    NIMBUS_TRY(const auto text, textOf(member));
    if (!text) return {};
    const Result<Timestamp> time = parseTime(*text);
    if (!time || *time < Timestamp()) {
      return badField("timestamp", "this must be a time such as 2026-01-31T09:08:07.006Z");
    }
    event.timestamp = *time;
    event.timestamp_text = std::string(member.value);
    return {};
  }
  if (isServers(member.name)) return {};
  if (const std::size_t index = indexOf(member.name); index < kIndexes.size()) {
    NIMBUS_TRY(event.fields.at(index), textOf(member));
  } else if (member.name == "state_delta" && member.value != "null") {
    NIMBUS_TRY(event.delta, parseDelta(member.value));
  }
  appendMember(event.members, member.name, member.value);
  return {};
}

bool isIndexed(std::string_view index, const std::vector<std::string>& indexes) {
  return index == kConversationIndex ||
         std::find(indexes.begin(), indexes.end(), index) != indexes.end();
}

// The text of the stored members as an object again.
std::string objectOf(std::string_view stored) {
  return fmt::format("{{{}}}", membersOf(stored));
}

}  // namespace

void StateDelta::add(const StateDelta& later) {
  session.insert(session.end(), later.session.begin(), later.session.end());
  app.insert(app.end(), later.app.begin(), later.app.end());
  user.insert(user.end(), later.user.begin(), later.user.end());
}

const std::optional<std::string>& NewEvent::field(std::string_view index) const {
  return fields.at(indexOf(index));
}

Result<StateDelta> parseDelta(std::string_view json) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  StateDelta delta;
  for (const RawMember& member : members) {
    std::string_view key = member.name;
    std::vector<Change>* changes = &delta.session;
    if (key.starts_with("temp:")) continue;
    if (key.starts_with("app:")) {
      key.remove_prefix(4);
      changes = &delta.app;
    } else if (key.starts_with("user:")) {
      key.remove_prefix(5);
      changes = &delta.user;
    }
    NIMBUS_CHECK(checkText("state key", key));
    Change change{std::string(key), std::nullopt};
    if (member.value != "null") change.value = std::string(member.value);
    changes->push_back(std::move(change));
  }
  return delta;
}

Result<NewEvent> parseEvent(std::string_view json) {
  NIMBUS_TRY(std::vector<RawMember> members, splitObject(json));
  NewEvent event;
  bool has_content = false;
  for (const RawMember& member : members) {
    NIMBUS_CHECK(readMember(event, member));
    has_content |= member.name == "content";
  }
  if (!has_content) return badField("content", "an event needs it; any JSON will do");
  event.fingerprint = fingerprintOf(std::move(members));
  return event;
}

Result<std::vector<NewEvent>> parseEvents(std::string_view json) {
  std::vector<NewEvent> events;
  if (!trimJson(json).starts_with('[')) {
    NIMBUS_TRY(NewEvent event, parseEvent(json));
    events.push_back(std::move(event));
    return events;
  }
  NIMBUS_TRY(const std::vector<std::string_view> elements, splitArray(json));
  if (elements.empty() || elements.size() > kMaxEvents) {
    return Error(Code::InvalidArgument,
                 fmt::format("1 to {} events go at once, not {}", kMaxEvents, elements.size()))
        .with("limit", static_cast<std::int64_t>(kMaxEvents));
  }
  std::set<std::string> ids;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    auto event = parseEvent(elements[i]);
    if (!event) {
      return std::move(event)
          .error()
          .in(fmt::format("event {}", i))
          .with("index", static_cast<std::int64_t>(i));
    }
    if (!event->id.empty() && !ids.insert(event->id).second) {
      return badField("id", fmt::format("\"{}\" is given twice", printable(event->id)));
    }
    events.push_back(*std::move(event));
  }
  return events;
}

std::string makeEventId(Random& random) {
  return "evt_" + random.base36(20);
}

std::string storedText(const NewEvent& event, const StoredHead& head) {
  std::string text =
      fmt::format("{} {} {}\n\"timestamp\":", head.created_at.time_since_epoch().count(),
                  head.evicted, head.timestamp.time_since_epoch().count());
  if (event.timestamp_text.empty()) {
    appendJsonString(text, timeText(head.timestamp));
  } else {
    text += event.timestamp_text;
  }
  if (!event.members.empty()) text += ',';
  text += event.members;
  return text;
}

std::optional<StoredHead> headOf(std::string_view stored) {
  const char* at = stored.data();
  const char* const end = at + std::min(stored.find('\n'), stored.size());
  std::array<std::int64_t, 3> numbers{};
  for (std::int64_t& number : numbers) {
    if (&number != numbers.data() && (at == end || *at++ != ' ')) return std::nullopt;
    const auto [stopped, failed] = std::from_chars(at, end, number);
    if (failed != std::errc()) return std::nullopt;
    at = stopped;
  }
  if (at != end || end == stored.data() + stored.size()) return std::nullopt;
  return StoredHead{Timestamp(Millis(numbers[0])), static_cast<std::uint64_t>(numbers[1]),
                    Timestamp(Millis(numbers[2]))};
}

std::string_view membersOf(std::string_view stored) {
  const std::size_t line = stored.find('\n');
  return line == std::string_view::npos ? stored : stored.substr(line + 1);
}

std::string timeTerm(Timestamp time) {
  return fmt::format("{:016x}", time.time_since_epoch().count());
}

std::vector<store::Term> termsOf(const NewEvent& event, Timestamp timestamp,
                                 const std::vector<std::string>& indexes) {
  std::vector<store::Term> terms;
  for (std::size_t i = 0; i < kIndexes.size(); ++i) {
    const auto& value = event.fields.at(i);
    if (value && isIndexed(kIndexes.at(i), indexes)) {
      terms.push_back({std::string(kIndexes.at(i)), *value});
    }
  }
  terms.push_back({std::string(kTimeIndex), timeTerm(timestamp)});
  return terms;
}

std::optional<std::vector<store::Term>> termsOf(std::string_view stored,
                                                const std::vector<std::string>& indexes) {
  const auto head = headOf(stored);
  if (!head) return std::nullopt;
  NewEvent event;
  const std::string object = objectOf(stored);
  const auto members = splitObject(object);
  if (!members) return std::nullopt;
  for (const RawMember& member : *members) {
    const std::size_t index = indexOf(member.name);
    if (index == kIndexes.size()) continue;
    auto text = textOf(member);
    if (!text) return std::nullopt;
    event.fields.at(index) = *std::move(text);
  }
  return termsOf(event, head->timestamp, indexes);
}

store::op::Append appendOf(const std::string& log, const NewEvent& event, const StoredHead& head,
                           const std::vector<std::string>& indexes) {
  store::op::Append append;
  append.log = log;
  append.id = event.id;
  append.value = storedText(event, head);
  append.terms = termsOf(event, head.timestamp, indexes);
  append.fingerprint = event.fingerprint;
  return append;
}

std::optional<std::string> fieldOf(const store::Entry& entry, std::string_view index) {
  for (const store::Term& term : entry.terms) {
    if (term.index == index) return term.value;
  }
  if (index == kConversationIndex) return std::nullopt;
  const std::string object = objectOf(entry.value);
  const auto root = parseJson(object);
  const auto text = root ? root->string(index) : std::nullopt;
  return text ? std::optional<std::string>(*text) : std::nullopt;
}

std::optional<std::string> conversationOf(const store::Entry& entry) {
  return fieldOf(entry, kConversationIndex);
}

std::string eventText(const store::Entry& entry) {
  std::string text = R"({"id":)";
  appendJsonString(text, entry.id);
  fmt::format_to(std::back_inserter(text), R"(,"seq":{},"version":{},"created_at":)", entry.seq,
                 entry.version);
  const auto head = headOf(entry.value);
  appendJsonString(text, timeText(head ? head->created_at : Timestamp()));
  text += ',';
  text += membersOf(entry.value);
  text += '}';
  return text;
}

}  // namespace nimbus::events
