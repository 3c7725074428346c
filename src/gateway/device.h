#pragma once
// One paired device, as it is kept and as it is shown.
//
// A device asks to be paired and is given a code, which its owner reads to an administrator or
// types in. Once approved it fetches its token with the code, once: the token is made then, and
// only its hash is kept.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "gateway/api_key.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace nimbus::gateway {

struct Device {
  enum class Status : std::uint8_t { Pending, Approved, Rejected, Revoked };
  // With more wrong codes than this the right one is not accepted either.
  static constexpr int kTries = 5;

  std::string id;
  std::string name;
  std::string public_info = "null";  // JSON, the device's own words
  Status status = Status::Pending;
  std::set<std::string, std::less<>> scopes;
  KeyHash code_hash{};
  int tries = 0;
  std::optional<KeyHash> token_hash;  // absent: it has not fetched one
  Timestamp created_at;
  Timestamp expires_at;  // of the pairing

  // "pending", "approved", ...; "expired" if it was not approved in time.
  std::string_view statusName(Timestamp now) const;
  bool isPending(Timestamp now) const { return status == Status::Pending && now < expires_at; }
};

inline constexpr std::string_view kDeviceIdPrefix = "dev_";
std::string makeDeviceId(Random& random);
std::string makeDeviceToken(Random& random);
// Eight letters that are hard to mistake, "BCDF-GHJK".
std::string makePairingCode(Random& random);
// Case and what stands between the letters do not matter.
KeyHash hashPairingCode(std::string_view code);

std::string deviceRecord(const Device& device);
Result<Device> parseDeviceRecord(std::string id, std::string_view record);
// How the device shows that it is the device; nothing unless it is approved and has its token.
std::optional<ApiKey> credentialOf(const Device& device, RateLimit limit);

// As the API shows it; the token only if it is given.
std::string deviceText(const Device& device, Timestamp now, std::string_view token = {});

}  // namespace nimbus::gateway
