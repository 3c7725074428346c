#include "gateway/api_key.h"

#include "base/ids.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"

#include <boost/algorithm/hex.hpp>
#include <fmt/format.h>
#include <sodium.h>

#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::string_view kPrefix = "nk_";
constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
constexpr std::size_t kIdLength = 16;
constexpr std::size_t kSecretLength = 50;

// Within these the store can count.
constexpr std::int64_t kMostRequests = 1'000'000;
constexpr std::int64_t kLongestWindowS = 86'400;

Error wrong(std::string_view member, std::string_view what) {
  return Error(Code::InvalidArgument, fmt::format("\"{}\" {}", member, what))
      .with("field", std::string(member));
}

std::uint64_t unsignedOf(std::optional<std::int64_t> number) {
  return static_cast<std::uint64_t>(number.value_or(0));
}

Result<std::string> textMember(std::string_view name, const JsonValue& value) {
  const auto text = value.string();
  if (!text) return wrong(name, "must be text");
  if (const auto fine = checkText(name, *text); !fine) {
    return Error(fine.error()).with("field", std::string(name));
  }
  return std::string(*text);
}

Result<std::set<std::string, std::less<>>> scopesMember(const JsonValue& value) {
  std::set<std::string, std::less<>> scopes;
  for (const JsonValue& element : value.elements()) {
    const auto scope = element.string();
    if (!scope) return wrong("scopes", "must be a list of names");
    if (const auto fine = checkScope(*scope); !fine) {
      return Error(fine.error()).with("field", std::string("scopes"));
    }
    scopes.emplace(*scope);
  }
  if (scopes.empty()) return wrong("scopes", "must be a list with at least one scope");
  return scopes;
}

Result<RateLimit> limitObject(const JsonValue& value) {
  RateLimit limit;
  std::optional<std::int64_t> burst;
  std::int64_t window_s = 60;
  for (const auto& [name, member] : value.members()) {
    const auto number = member.integer();
    if (!number || *number < 0) return wrong("rate_limit", "must have whole numbers");
    if (name == "requests") {
      limit.requests = unsignedOf(number);
    } else if (name == "window_s") {
      window_s = *number;
    } else if (name == "burst") {
      burst = number;
    } else {
      return wrong("rate_limit", fmt::format("has no \"{}\", only \"requests\", \"window_s\" and "
                                             "\"burst\"",
                                             printable(name)));
    }
  }
  if (window_s < 1 || window_s > kLongestWindowS) {
    return wrong("rate_limit", "must have a \"window_s\" of 1 to 86400");
  }
  limit.window = std::chrono::seconds(window_s);
  limit.burst = burst ? unsignedOf(burst) : limit.requests;
  return limit;
}

Result<RateLimit> limitMember(const JsonValue& value) {
  RateLimit limit;
  if (const auto number = value.integer()) {
    if (*number < 0) return wrong("rate_limit", "must not be negative; 0 is no limit");
    limit = RateLimit::perMinute(unsignedOf(number));
  } else if (value.isObject()) {
    NIMBUS_TRY(limit, limitObject(value));
  } else {
    return wrong("rate_limit",
                 "must be a number of requests per minute, or {\"requests\", \"window_s\", "
                 "\"burst\"}");
  }
  const auto most = static_cast<std::uint64_t>(kMostRequests);
  if (limit.requests > most || limit.burst > most) {
    return wrong("rate_limit", "must not be above 1000000");
  }
  if (limit.requests > 0 && limit.burst == 0) {
    return wrong("rate_limit", "must have a \"burst\" of at least 1");
  }
  return limit;
}

Result<Timestamp> expiryMember(const JsonValue& value, Timestamp now) {
  const auto text = value.string();
  if (!text) return wrong("expires_at", "must be a time such as \"2026-01-31T09:08:07Z\"");
  const auto time = parseTime(*text);
  if (!time) return wrong("expires_at", "must be a time such as \"2026-01-31T09:08:07Z\"");
  if (*time <= now) return wrong("expires_at", "must be in the future");
  return *time;
}

Result<> readMember(KeyRequest& request, std::string_view name, const JsonValue& value,
                    Timestamp now) {
  if (name == "name") {
    NIMBUS_TRY(request.name, textMember(name, value));
  } else if (name == "scopes") {
    NIMBUS_TRY(request.scopes, scopesMember(value));
  } else if (name != "expires_at" && name != "session_prefix" && name != "rate_limit") {
    return Error(Code::InvalidArgument,
                 fmt::format("there is no \"{}\" in a key, only name, scopes, expires_at, "
                             "session_prefix and rate_limit",
                             printable(name)))
        .with("field", std::string(name));
  } else if (value.kind() == JsonValue::Kind::Null) {
    return {};
  } else if (name == "expires_at") {
    NIMBUS_TRY(request.expires_at, expiryMember(value, now));
  } else if (name == "session_prefix") {
    NIMBUS_TRY(request.session_prefix, textMember(name, value));
  } else {
    NIMBUS_TRY(request.rate_limit, limitMember(value));
  }
  return {};
}

// As it may be given: a number if that says it all.
void appendLimit(std::string& text, const RateLimit& limit) {
  if (limit == RateLimit::perMinute(limit.requests)) {
    appendNumber(text, limit.requests);
    return;
  }
  fmt::format_to(std::back_inserter(text), R"({{"requests":{},"window_s":{},"burst":{}}})",
                 limit.requests, limit.window.count() / 1000, limit.burst);
}

void appendTime(std::string& text, const std::optional<Timestamp>& time) {
  if (time) {
    appendJsonString(text, timeText(*time));
  } else {
    text += "null";
  }
}

// What record and answer have in common, without the brace that ends it.
std::string commonText(const ApiKey& key) {
  const Principal& principal = *key.principal;
  std::string text = R"({"id":)";
  appendJsonString(text, principal.id);
  text += R"(,"name":)";
  appendJsonString(text, principal.name);
  text += R"(,"scopes":[)";
  for (const std::string& scope : principal.scopes) {
    if (text.back() != '[') text += ',';
    appendJsonString(text, scope);
  }
  text += R"(],"session_prefix":)";
  if (principal.session_prefix) {
    appendJsonString(text, *principal.session_prefix);
  } else {
    text += "null";
  }
  text += R"(,"expires_at":)";
  appendTime(text, key.expires_at);
  text += R"(,"created_at":)";
  appendTime(text, key.created_at);
  return text;
}

Error unreadable(std::string_view what) {
  return {Code::Internal, fmt::format("its record has no {}", what)};
}

Result<KeyHash> hashOf(const JsonValue& record) {
  const auto text = record.string("hash");
  KeyHash hash{};
  if (!text || text->size() != 2 * hash.size()) return unreadable("hash");
  try {
    boost::algorithm::unhex(text->begin(), text->end(), hash.begin());
  } catch (const boost::algorithm::hex_decode_error&) {
    return unreadable("hash");
  }
  return hash;
}

}  // namespace

KeyHash hashKey(std::string_view key) {
  KeyHash hash{};
  static_assert(hash.size() == crypto_hash_sha256_BYTES);
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return hash;
}

bool isSameHash(const KeyHash& a, const KeyHash& b) {
  return sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string makeKeyId(Random& random) {
  return random.base36(kIdLength);
}

std::string makeKey(std::string_view id, Random& random) {
  return fmt::format("{}{}_{}", kPrefix, id, random.base36(kSecretLength));
}

std::optional<std::string_view> keyIdOf(std::string_view key) {
  constexpr std::size_t kSecretAt = kPrefix.size() + kIdLength + 1;
  if (key.size() != kSecretAt + kSecretLength || !key.starts_with(kPrefix)) return std::nullopt;
  if (key[kSecretAt - 1] != '_') return std::nullopt;
  const std::string_view id = key.substr(kPrefix.size(), kIdLength);
  if (id.find_first_not_of(kDigits) != id.npos) return std::nullopt;
  if (key.find_first_not_of(kDigits, kSecretAt) != key.npos) return std::nullopt;
  return id;
}

std::string withoutSecrets(std::string_view text) {
  constexpr std::size_t kTooLong = 24;  // for what is no secret: an id is shorter
  std::string out;
  while (!text.empty()) {
    const std::size_t begin = std::min(text.find(kPrefix), text.size());
    out += text.substr(0, begin);
    text.remove_prefix(begin);
    if (text.empty()) break;
    std::size_t length = kPrefix.size();
    while (length < text.size() &&
           (kDigits.find(text[length]) != kDigits.npos || text[length] == '_')) {
      ++length;
    }
    out += length > kTooLong ? std::string(kPrefix) + "..." : std::string(text.substr(0, length));
    text.remove_prefix(length);
  }
  return out;
}

Result<KeyRequest> parseKeyRequest(std::string_view body, Timestamp now) {
  NIMBUS_TRY(const auto members, splitObject(body));
  KeyRequest request;
  for (const RawMember& member : members) {
    NIMBUS_TRY(const JsonValue value, parseJson(member.value));
    NIMBUS_CHECK(readMember(request, member.name, value, now));
  }
  if (request.name.empty()) return wrong("name", "is missing: say what the key is for");
  if (request.scopes.empty()) return wrong("scopes", "is missing: a list of what the key may do");
  return request;
}

std::string keyRecord(const ApiKey& key) {
  std::string text = commonText(key);
  text += R"(,"hash":")";
  boost::algorithm::hex_lower(key.hash.begin(), key.hash.end(), std::back_inserter(text));
  text += '"';
  if (key.own_rate_limit) {
    fmt::format_to(std::back_inserter(text), R"(,"requests":{},"window_ms":{},"burst":{})",
                   key.own_rate_limit->requests, key.own_rate_limit->window.count(),
                   key.own_rate_limit->burst);
  }
  text += '}';
  return text;
}

Result<ApiKey> parseKeyRecord(std::string id, std::string_view record, RateLimit default_limit) {
  NIMBUS_TRY(const JsonValue value, parseJson(record));
  ApiKey key;
  auto principal = std::make_shared<Principal>();
  principal->id = std::move(id);
  principal->name = value.string("name").value_or("");
  if (const auto scopes = value.member("scopes")) {
    for (const JsonValue& scope : scopes->elements()) {
      principal->scopes.emplace(scope.string().value_or(""));
    }
  }
  if (const auto prefix = value.string("session_prefix")) principal->session_prefix = *prefix;
  if (value.integer("requests")) {
    key.own_rate_limit = RateLimit{unsignedOf(value.integer("requests")),
                                   Millis(value.integer("window_ms").value_or(60'000)),
                                   unsignedOf(value.integer("burst"))};
  }
  principal->rate_limit = key.own_rate_limit.value_or(default_limit);
  NIMBUS_TRY(key.hash, hashOf(value));
  if (const auto expiry = value.string("expires_at")) {
    NIMBUS_TRY(key.expires_at, parseTime(*expiry));
  }
  const auto created = value.string("created_at");
  if (!created) return unreadable("created_at");
  NIMBUS_TRY(key.created_at, parseTime(*created));
  key.principal = std::move(principal);
  return key;
}

std::string keyText(const ApiKey& key, std::string_view plain_key) {
  std::string text = commonText(key);
  text += R"(,"rate_limit":)";
  appendLimit(text, key.principal->rate_limit);
  if (!plain_key.empty()) {
    text += R"(,"key":)";
    appendJsonString(text, plain_key);
  }
  text += '}';
  return text;
}

}  // namespace nimbus::gateway
