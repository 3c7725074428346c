#include "cli/v1_layout.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"
#include "base/utf8.h"

#include <fmt/format.h>
#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

namespace nimbus::cli {
namespace {

constexpr std::string_view kReservedId = "stream";

std::optional<std::string> decodeBase64(std::string_view text) {
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes(text.size() / 4 * 3, '\0');
  // NOLINTBEGIN(*-reinterpret-cast): bytes are bytes
  const int size = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                                   reinterpret_cast<const unsigned char*>(text.data()),
                                   static_cast<int>(text.size()));
  // NOLINTEND(*-reinterpret-cast)
  if (size < 0) return std::nullopt;
  const std::size_t padding = text.ends_with("==") ? 2 : text.ends_with("=") ? 1 : 0;
  bytes.resize(static_cast<std::size_t>(size) - padding);
  return bytes;
}

bool isReadable(std::string_view text) {
  const bool has_control = std::any_of(text.begin(), text.end(), [](char byte) {
    const auto code = static_cast<unsigned char>(byte);
    return (code < 0x20 && byte != '\n' && byte != '\t' && byte != '\r') || code == 0x7f;
  });
  return !has_control && utf8::isValid(text);
}

// What a Go program meant by a value of a state, as JSON; nothing if it was none of a Go program's.
std::optional<std::string> goValue(std::string_view json) {
  const auto value = parseJson(json);
  const auto text = value ? value->string() : std::nullopt;
  if (!text) return std::nullopt;
  if (text->empty()) return std::string("\"\"");
  const auto bytes = decodeBase64(*text);
  if (!bytes || !isReadable(*bytes)) return std::nullopt;
  if (checkJson(*bytes)) return std::string(trimJson(*bytes));
  std::string quoted;
  appendJsonString(quoted, *bytes);
  return quoted;
}

bool belongsElsewhere(std::string_view key) {
  return key.starts_with("app:") || key.starts_with("user:") || key.starts_with("temp:") ||
         !checkText("state key", key);
}

void readState(V1Session& session, const std::vector<RawMember>& members) {
  std::vector<std::string> decoded;
  for (const RawMember& member : members) {
    auto value = goValue(member.value);
    if (!value) break;
    decoded.push_back(*std::move(value));
  }
  const bool is_go = decoded.size() == members.size();
  session.state = "{";
  for (std::size_t i = 0; i < members.size(); ++i) {
    if (belongsElsewhere(members[i].name) || members[i].value == "null") {
      ++session.dropped_keys;
      continue;
    }
    if (session.state.size() > 1) session.state += ',';
    appendJsonString(session.state, members[i].name);
    session.state += ':';
    session.state += is_go ? std::string_view(decoded[i]) : members[i].value;
  }
  session.state += '}';
}

std::string textOf(std::string_view json) {
  const auto value = parseJson(json);
  const auto text = value ? value->string() : std::nullopt;
  return std::string(text.value_or(""));
}

std::string hashOf(std::string_view text) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash.data());
  std::string hex;
  constexpr std::size_t kBytes = 16;
  for (std::size_t i = 0; i < kBytes; ++i) hex += fmt::format("{:02x}", hash.at(i));
  return hex;
}

// Seconds, milliseconds, microseconds or nanoseconds: whichever makes it a time of these centuries.
std::optional<Timestamp> timeOfScore(double score) {
  constexpr double kFarFuture = 1e11;  // in seconds
  if (!std::isfinite(score) || score < 0) return std::nullopt;
  double seconds = score;
  while (seconds >= kFarFuture) seconds /= 1000;
  return Timestamp(Millis(static_cast<std::int64_t>(seconds * 1000)));
}

// Which field of an event a member of V1's is; empty: none.
std::string_view fieldOf(std::string_view name) {
  if (name == "requestID" || name == "requestId" || name == "request_id") return "request_id";
  if (name == "invocationId" || name == "invocationID" || name == "invocation_id") {
    return "invocation_id";
  }
  if (name == "author" || name == "tag") return name;
  return {};
}

void addField(std::string& body, std::string_view name, std::string_view text) {
  body += body.empty() ? '{' : ',';
  appendJsonString(body, name);
  body += ':';
  appendJsonString(body, text);
}

// "2026-01-31T09:08:07.1Z" -> "2026-01-31T09:08:07100000000", and "Z".
std::pair<std::string, std::string> timeOrder(std::string_view json) {
  constexpr std::size_t kSeconds = std::string_view("2026-01-31T09:08:07").size();
  const auto root = parseJson(json);
  const std::string text(root ? root->string("timestamp").value_or("") : "");
  if (text.size() <= kSeconds) return {};
  std::size_t end = kSeconds;
  std::string fraction;
  if (text[end] == '.') {
    while (++end < text.size() && text[end] >= '0' && text[end] <= '9') fraction += text[end];
  }
  fraction.resize(9, '0');
  return {text.substr(0, kSeconds) + fraction, text.substr(end)};
}

}  // namespace

std::optional<V1Owner> parseV1Key(std::string_view key) {
  if (!key.starts_with(kV1Sessions)) return std::nullopt;
  key.remove_prefix(kV1Sessions.size());
  const bool in_braces = key.starts_with('{');
  const std::size_t end = in_braces ? key.find("}:") : key.find(':');
  if (end == std::string_view::npos) return std::nullopt;
  std::string_view app = key.substr(in_braces ? 1 : 0, in_braces ? end - 1 : end);
  std::string_view user = key.substr(end + (in_braces ? 2 : 1));
  if (in_braces && user.size() > 2 && user.starts_with('{') && user.ends_with('}')) {
    user = user.substr(1, user.size() - 2);
  }
  if (app.empty() || user.empty()) return std::nullopt;
  return V1Owner{std::string(app), std::string(user)};
}

std::vector<std::string> v1EventKeys(std::string_view sessions_key, std::string_view id) {
  const std::string_view owner = sessions_key.substr(kV1Sessions.size());
  return {fmt::format("{}{}:{}", kV1Events, owner, id),
          fmt::format("{}{}:{{{}}}", kV1Events, owner, id)};
}

Result<V1Session> parseV1Session(std::string_view json) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  V1Session session;
  for (const RawMember& member : members) {
    const bool is_created = member.name == "createdAt" || member.name == "created_at";
    const bool is_updated = member.name == "updatedAt" || member.name == "updated_at";
    if (is_created || is_updated) {
      const auto time = parseTime(textOf(member.value));
      if (time && *time > Timestamp()) {
        (is_created ? session.created_at : session.updated_at) = timeText(*time);
      }
    } else if (member.name == "state" && member.value != "null") {
      NIMBUS_TRY(const std::vector<RawMember> state, splitObject(member.value));
      readState(session, state);
    }
  }
  return session;
}

Result<V1Event> convertV1Event(const V1Member& member, std::set<std::string>& ids) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(member.json));
  V1Event event;
  std::string body;
  std::string timestamp;
  for (const RawMember& field : members) {
    const std::string text = textOf(field.value);
    if (field.name == "id") event.id = text;
    if (field.name == "timestamp" && parseTime(text)) timestamp = text;
    const std::string_view name = fieldOf(field.name);
    if (!name.empty() && checkText(name, text)) addField(body, name, text);
  }
  const bool is_usable = checkText("id", event.id).has_value() && event.id != kReservedId;
  if (!is_usable || ids.contains(event.id)) {
    event.id = "v1_" + hashOf(member.json);
    event.has_new_id = true;
  }
  ids.insert(event.id);
  const auto time = timeOfScore(member.score);
  if (timestamp.empty() && time) timestamp = timeText(*time);
  addField(body, "id", event.id);
  if (!timestamp.empty()) addField(body, "timestamp", timestamp);
  event.body = fmt::format(R"({},"content":{}}})", body, member.json);
  return event;
}

void orderV1Members(std::vector<V1Member>& members) {
  for (std::size_t begin = 0; begin < members.size();) {
    std::size_t end = begin + 1;
    while (end < members.size() && members[end].score == members[begin].score) ++end;
    if (end - begin > 1) {
      std::vector<std::pair<std::pair<std::string, std::string>, V1Member>> keyed;
      for (std::size_t i = begin; i < end; ++i) {
        keyed.emplace_back(timeOrder(members[i].json), std::move(members[i]));
      }
      const bool comparable = std::all_of(keyed.begin(), keyed.end(), [&](const auto& one) {
        return !one.first.first.empty() && one.first.second == keyed.front().first.second;
      });
      if (comparable) {
        std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
          return a.first.first < b.first.first;
        });
      }
      for (std::size_t i = begin; i < end; ++i) members[i] = std::move(keyed[i - begin].second);
    }
    begin = end;
  }
}

}  // namespace nimbus::cli
