#pragma once
// Who is asking, and what that one may reach.

#include "base/clock.h"
#include "base/result.h"
#include "http/request.h"
#include "http/route.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace nimbus::gateway {

// So many requests per window on average, and at most `burst` at once.
struct RateLimit {
  std::uint64_t requests = 0;  // 0 = no limit
  Millis window{60'000};
  std::uint64_t burst = 0;

  static RateLimit perMinute(std::uint64_t requests) {
    return {requests, Millis(60'000), requests};
  }
  bool operator==(const RateLimit&) const = default;
};

struct Principal {
  // Never given to another: what is recorded, or remembered, under it stays of this one.
  std::string id;  // "administrator", "anyone", or that of a key or device
  std::string name;
  std::set<std::string, std::less<>> scopes;  // "admin" has all of them
  // Only sessions and users that begin with this exist for it.
  std::optional<std::string> session_prefix = {};
  RateLimit rate_limit = {};
  bool is_device = false;
  // Another node has let it in, has counted and recorded what it asks for.
  bool is_forwarded = false;

  bool has(std::string_view scope) const;
  bool reachesSession(std::string_view session_key) const {
    return !session_prefix || session_key.starts_with(*session_prefix);
  }
};
using PrincipalPtr = std::shared_ptr<const Principal>;

// Of routes that are for devices; no key can be given it.
inline constexpr std::string_view kDeviceScope = "device";

// What a key or device may be given: the fixed scopes, or `invoke:<function>`. InvalidArgument
// otherwise, with the field `allowed`.
Result<> checkScope(std::string_view scope);

// Whoever the Authorization let in with this request. Not for routes that are open to everyone.
const Principal& principalOf(const http::Request& request);

// Whether this route is the principal's to use, as far as the head of the request tells. Forbidden,
// with the field `scope` if a scope is missing.
Result<> checkRoute(const Principal& principal, const http::Request& request,
                    const http::Route& route);

// For handlers of routes that check reach themselves. Forbidden if the principal may not reach that
// session; one with a prefix needs a session key.
Result<> checkSession(const http::Request& request, const std::optional<std::string>& session_key);
// Forbidden if the principal may not call that function.
Result<> checkInvoke(const http::Request& request, std::string_view function_id);
// Forbidden if there are sessions that the principal may not reach.
Result<> checkAllSessions(const http::Request& request);

}  // namespace nimbus::gateway
