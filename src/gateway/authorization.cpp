#include "gateway/authorization.h"

#include "base/assert.h"
#include "gateway/audit.h"
#include "gateway/device.h"
#include "gateway/key_ring.h"
#include "gateway/rate_limits.h"
#include "http/text.h"

#include <sodium.h>

#include <utility>

namespace nimbus::gateway {
namespace {

PrincipalPtr allMighty(std::string name) {
  auto principal = std::make_shared<Principal>();
  principal->id = name;
  principal->name = std::move(name);
  principal->scopes.insert("admin");
  return principal;
}

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

// What a caller shows of itself.
struct Shown {
  std::optional<std::string_view> id;  // absent: only the administrator has none
  std::string_view secret;
};

Result<Shown> shownDevice(const http::Request& request) {
  const std::string_view id = request.header("X-Device-Id");
  const bool is_one =
      request.headerCount("X-Device-Id") == 1 && request.headerCount("X-Device-Token") == 1;
  if (!is_one || !id.starts_with(kDeviceIdPrefix)) {
    return Error(Code::Unauthenticated, "a device sends one X-Device-Id and one X-Device-Token");
  }
  return Shown{id, request.header("X-Device-Token")};
}

Result<Shown> shownIn(const http::Request& request) {
  const std::size_t keys = request.headerCount("Authorization");
  if (keys == 0 && !request.header("X-Device-Id").empty()) return shownDevice(request);
  if (keys != 1) {
    return Error(Code::Unauthenticated, "this needs a key: send `Authorization: Bearer nk_...`");
  }
  const auto key = bearerKey(request.header("Authorization"));
  if (key) return Shown{keyIdOf(*key), *key};
  return Error(Code::Unauthenticated, "the Authorization field must read `Bearer nk_...`");
}

Error unknownKey() {
  return {Code::Unauthenticated, "the key is not known"};
}

// The function whose calls are counted; empty if the route calls none.
std::string_view calledFunction(const http::Request& request, const http::Route& route) {
  if (route.scope != "invoke" || !request.parameters.has("id")) return {};
  return request.parameters["id"];
}

}  // namespace

Authorization::Authorization(Options options, Parts parts)
    : options_(std::move(options)),
      parts_(parts),
      administrator_(allMighty("administrator")),
      anyone_(allMighty("anyone")) {
  NIMBUS_ASSERT(sodium_init() >= 0, "libsodium finds what it needs on every system we run on");
}

void Authorization::addTo(Metrics& metrics) {
  const auto refused =
      metrics.counters("nimbus_auth_refused_total", "Requests that were not let in.", {{"code"}});
  unauthenticated_ = refused.with({std::string(codeName(Code::Unauthenticated))});
  forbidden_ = refused.with({std::string(codeName(Code::Forbidden))});
}

void Authorization::addAdministrator(const KeyHash& hash) {
  administrator_hashes_.push_back(hash);
}

Task<Result<>> Authorization::authorize(http::Request& request, const http::Route& route) {
  const bool is_device = !request.header("X-Device-Id").empty();
  if (!options_.authenticate && !is_device) {  // a device is one only with its token
    request.principal = anyone_;
    co_return Result<>();
  }
  if (route.scope.empty() || options_.public_scopes.contains(route.scope)) co_return Result<>();
  if (options_.authenticate && parts_.limits.limitsAddresses()) {
    NIMBUS_CO_CHECK(co_await parts_.limits.takeForAddress(request));
  }
  const auto shown = shownIn(request);
  if (!shown) co_return co_await refuse(request, route, shown.error(), nullptr);
  KeyRing::KeyPtr found = shown->id ? parts_.keys.known(*shown->id) : nullptr;
  if (shown->id && !found) {
    NIMBUS_CO_TRY(found, co_await parts_.keys.find(std::string(*shown->id)));
  }
  const auto known = recognize(shown->secret, found.get());
  if (!known) co_return co_await refuse(request, route, known.error(), nullptr);
  const PrincipalPtr& principal = *known;
  if (auto allowed = checkRoute(*principal, request, route); !allowed) {
    co_return co_await refuse(request, route, allowed.error(), principal);
  }
  request.principal = principal;
  const std::string_view function = calledFunction(request, route);
  if (!options_.authenticate || !parts_.limits.limits(*principal, function)) co_return Result<>();
  co_return co_await parts_.limits.take(*principal, std::string(function), request);
}

Result<PrincipalPtr> Authorization::recognize(std::string_view secret, const ApiKey* found) const {
  const KeyHash hash = hashKey(secret);
  if (found == nullptr) {
    if (isAdministrator(hash)) return administrator_;
    return unknownKey();
  }
  if (!isSameHash(hash, found->hash)) return unknownKey();
  if (found->expires_at && *found->expires_at <= parts_.store.now()) {
    return Error(Code::Unauthenticated, "the key has expired");
  }
  return found->principal;
}

bool Authorization::isAdministrator(const KeyHash& hash) const {
  bool is_same = false;
  // All of them, always: when the search ends must not tell how near a guess was.
  for (const KeyHash& known : administrator_hashes_) {
    if (isSameHash(hash, known)) is_same = true;
  }
  return is_same;
}

Task<Result<>> Authorization::refuse(const http::Request& request, const http::Route& route,
                                     Error error, PrincipalPtr principal) {
  if (error.code() != Code::Unauthenticated && error.code() != Code::Forbidden) co_return error;
  auto& counter = error.code() == Code::Forbidden ? forbidden_ : unauthenticated_;
  if (counter) counter->increment();
  co_await parts_.audit.refused(request, route, error, principal.get());
  co_return error;
}

}  // namespace nimbus::gateway
