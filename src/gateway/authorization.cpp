#include "gateway/authorization.h"

#include "base/assert.h"
#include "http/text.h"

#include <fmt/format.h>
#include <sodium.h>

#include <optional>

namespace nimbus::gateway {
namespace {

constexpr std::string_view kAdmin = "admin";

// The key in `Bearer <key>`; nothing if the field is of another kind.
std::optional<std::string_view> bearerKey(std::string_view field) {
  const std::size_t space = field.find(' ');
  if (space == field.npos || !http::equalIgnoringCase(field.substr(0, space), "Bearer")) {
    return std::nullopt;
  }
  field.remove_prefix(space);
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  if (field.empty()) return std::nullopt;
  return field;
}

}  // namespace

KeyHash hashKey(std::string_view key) {
  KeyHash hash{};
  static_assert(hash.size() == crypto_hash_sha256_BYTES);
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  crypto_hash_sha256(hash.data(), reinterpret_cast<const unsigned char*>(key.data()), key.size());
  return hash;
}

bool Principal::has(std::string_view scope) const {
  return scopes.contains(kAdmin) || scopes.contains(scope);
}

Authorization::Authorization(Options options) : options_(std::move(options)) {
  NIMBUS_ASSERT(sodium_init() >= 0, "libsodium finds what it needs on every system we run on");
}

void Authorization::addKey(std::string_view key, Principal principal) {
  credentials_.push_back({hashKey(key), std::move(principal)});
}

Task<Result<>> Authorization::authorize(http::Request& request, const http::Route& route) {
  co_return check(request, route);
}

Result<> Authorization::check(http::Request& request, const http::Route& route) const {
  if (!options_.authenticate) {
    request.principal = Principal{"anyone", {std::string(kAdmin)}};
    return {};
  }
  if (route.scope.empty() || options_.public_scopes.contains(route.scope)) return {};

  if (request.headerCount("Authorization") != 1) {
    return Error(Code::Unauthenticated, "this needs a key: send `Authorization: Bearer nk_...`");
  }
  const auto key = bearerKey(request.header("Authorization"));
  if (!key) {
    return Error(Code::Unauthenticated, "the Authorization field must read `Bearer nk_...`");
  }
  const Principal* principal = find(*key);
  if (principal == nullptr) return Error(Code::Unauthenticated, "the key is not known");
  if (!principal->has(route.scope)) {
    return Error(Code::Forbidden, fmt::format("the key lacks the scope {}", route.scope))
        .with("scope", route.scope);
  }
  request.principal = *principal;
  return {};
}

const Principal* Authorization::find(std::string_view key) const {
  const KeyHash hash = hashKey(key);
  const Principal* found = nullptr;
  // All of them, always: when the search ends must not tell how near a guess was.
  for (const Credential& credential : credentials_) {
    if (sodium_memcmp(hash.data(), credential.hash.data(), hash.size()) == 0) {
      found = &credential.principal;
    }
  }
  return found;
}

}  // namespace nimbus::gateway
