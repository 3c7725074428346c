#include "gateway/device.h"

#include "base/json.h"
#include "base/json_text.h"
#include "base/time_text.h"

#include <boost/algorithm/hex.hpp>
#include <fmt/format.h>

#include <array>
#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::array<std::string_view, 4> kStatuses = {"pending", "approved", "rejected",
                                                       "revoked"};
constexpr std::string_view kLetters = "BCDFGHJKLMNPQRSTVWXZ";  // no vowels, so no words

std::string_view nameOf(Device::Status status) {
  return kStatuses.at(static_cast<std::size_t>(status));
}

Result<KeyHash> parseHash(std::optional<std::string_view> text) {
  KeyHash hash{};
  if (!text || text->size() != 2 * hash.size()) return Error(Code::Internal, "this is no hash");
  try {
    boost::algorithm::unhex(text->begin(), text->end(), hash.begin());
  } catch (const boost::algorithm::hex_decode_error&) {
    return Error(Code::Internal, "this is no hash");
  }
  return hash;
}

void appendHash(std::string& text, std::string_view name, const KeyHash& hash) {
  fmt::format_to(std::back_inserter(text), R"(,"{}":")", name);
  boost::algorithm::hex_lower(hash.begin(), hash.end(), std::back_inserter(text));
  text += '"';
}

// What record and answer have in common, without the brace that ends it.
std::string commonText(const Device& device, std::string_view id_name, std::string_view status) {
  std::string text = fmt::format(R"({{"{}":)", id_name);
  appendJsonString(text, device.id);
  text += R"(,"name":)";
  appendJsonString(text, device.name);
  text += R"(,"status":)";
  appendJsonString(text, status);
  text += R"(,"scopes":[)";
  for (const std::string& scope : device.scopes) {
    if (text.back() != '[') text += ',';
    appendJsonString(text, scope);
  }
  text += R"(],"created_at":)";
  appendJsonString(text, timeText(device.created_at));
  text += R"(,"pairing_expires_at":)";
  appendJsonString(text, timeText(device.expires_at));
  text += R"(,"public_info":)";
  text += device.public_info;
  return text;
}

}  // namespace

std::string_view Device::statusName(Timestamp now) const {
  if (status == Status::Pending && now >= expires_at) return "expired";
  return nameOf(status);
}

std::string makeDeviceId(Random& random) {
  return std::string(kDeviceIdPrefix) + random.base36(16);
}

std::string makeDeviceToken(Random& random) {
  return "nd_" + random.base36(50);
}

std::string makePairingCode(Random& random) {
  std::string code;
  for (int i = 0; i < 8; ++i) {
    if (i == 4) code += '-';
    code += kLetters[random.below(kLetters.size())];
  }
  return code;
}

KeyHash hashPairingCode(std::string_view code) {
  std::string letters;
  for (const char c : code) {
    const char upper = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (kLetters.find(upper) != kLetters.npos) letters += upper;
  }
  return hashKey(letters);
}

std::string deviceRecord(const Device& device) {
  std::string text = commonText(device, "id", nameOf(device.status));
  appendHash(text, "code_hash", device.code_hash);
  if (device.token_hash) appendHash(text, "token_hash", *device.token_hash);
  fmt::format_to(std::back_inserter(text), R"(,"tries":{}}})", device.tries);
  return text;
}

Result<Device> parseDeviceRecord(std::string id, std::string_view record) {
  Device device;
  device.id = std::move(id);
  NIMBUS_TRY(const auto members, splitObject(record));
  for (const RawMember& member : members) {
    if (member.name == "public_info") device.public_info = std::string(member.value);
  }
  NIMBUS_TRY(const JsonValue value, parseJson(record));
  device.name = value.string("name").value_or("");
  const std::string_view status = value.string("status").value_or("");
  device.status = Device::Status::Revoked;
  for (std::size_t i = 0; i < kStatuses.size(); ++i) {
    if (kStatuses.at(i) == status) device.status = static_cast<Device::Status>(i);
  }
  if (const auto scopes = value.member("scopes")) {
    for (const JsonValue& scope : scopes->elements()) {
      device.scopes.emplace(scope.string().value_or(""));
    }
  }
  device.tries = static_cast<int>(value.integer("tries").value_or(Device::kTries));
  NIMBUS_TRY(device.code_hash, parseHash(value.string("code_hash")));
  if (value.string("token_hash")) {
    NIMBUS_TRY(device.token_hash, parseHash(value.string("token_hash")));
  }
  NIMBUS_TRY(device.created_at, parseTime(value.string("created_at").value_or("")));
  NIMBUS_TRY(device.expires_at, parseTime(value.string("pairing_expires_at").value_or("")));
  return device;
}

std::optional<ApiKey> credentialOf(const Device& device, RateLimit limit) {
  if (device.status != Device::Status::Approved || !device.token_hash) return std::nullopt;
  auto principal = std::make_shared<Principal>();
  principal->id = device.id;
  principal->name = device.name;
  principal->scopes = device.scopes;
  principal->scopes.emplace(kDeviceScope);
  principal->is_device = true;
  principal->rate_limit = limit;
  ApiKey credential;
  credential.principal = std::move(principal);
  credential.hash = *device.token_hash;
  credential.created_at = device.created_at;
  return credential;
}

std::string deviceText(const Device& device, Timestamp now, std::string_view token) {
  std::string text = commonText(device, "device_id", device.statusName(now));
  if (!token.empty()) {
    text += R"(,"token":)";
    appendJsonString(text, token);
  }
  text += '}';
  return text;
}

}  // namespace nimbus::gateway
