#pragma once
// One API key, as it is kept and as it is shown.
//
// A key is `nk_<id>_<secret>`: 16 characters of [0-9a-z] by which it is found and may be spoken of,
// and 50 (258 bits) that only its holder knows. Kept is SHA-256 of the whole. A slow hash is for
// secrets that people choose; nobody can try 2^258 of them, and a fast one can be checked with
// every request.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "gateway/principal.h"

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::gateway {

// SHA-256.
using KeyHash = std::array<unsigned char, 32>;
KeyHash hashKey(std::string_view key);
// In a time that does not depend on where they differ.
bool isSameHash(const KeyHash& a, const KeyHash& b);

struct ApiKey {
  PrincipalPtr principal;  // its id is the key's
  KeyHash hash{};
  // Absent: the server's default; its `requests` 0: none.
  std::optional<RateLimit> own_rate_limit;
  std::optional<Timestamp> expires_at;
  Timestamp created_at;

  const std::string& id() const { return principal->id; }
};

// The key in plain text, to be shown once.
std::string makeKey(std::string_view id, Random& random);
std::string makeKeyId(Random& random);
// The id in a text that has the form of a key; nothing for any other text.
std::optional<std::string_view> keyIdOf(std::string_view key);

// `text` with whatever could be a key's secret left out: for records of what strangers sent.
std::string withoutSecrets(std::string_view text);

// What POST /api/v1/keys may say. InvalidArgument names the member.
struct KeyRequest {
  std::string name;
  std::set<std::string, std::less<>> scopes;
  std::optional<Timestamp> expires_at;
  std::optional<std::string> session_prefix;
  std::optional<RateLimit> rate_limit;
};
Result<KeyRequest> parseKeyRequest(std::string_view body, Timestamp now);

// As the store keeps it. `default_limit` is for keys without a limit of their own.
std::string keyRecord(const ApiKey& key);
Result<ApiKey> parseKeyRecord(std::string id, std::string_view record, RateLimit default_limit);

// As the API shows it: never the hash, and the key only if it is given.
std::string keyText(const ApiKey& key, std::string_view plain_key = {});

}  // namespace nimbus::gateway
