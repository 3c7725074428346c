#include "gateway/principal.h"

#include "base/assert.h"
#include "base/ids.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace nimbus::gateway {
namespace {

constexpr std::string_view kAdmin = "admin";
constexpr std::string_view kInvoke = "invoke";
constexpr std::string_view kInvokeOne = "invoke:";

constexpr std::array<std::string_view, 14> kScopes = {
    kAdmin,           "functions:read", "functions:write", kInvoke,       "sessions:read",
    "sessions:write", "events:read",    "events:write",    "flows:read",  "flows:write",
    "cron:read",      "cron:write",     "devices:admin",   "metrics:read"};

// What tells nothing of any session, and changes none.
constexpr std::array<std::string_view, 2> kWithoutSessions = {"functions:read", "metrics:read"};

template <typename List>
bool isAmong(const List& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

Error lacksScope(std::string scope) {
  return Error(Code::Forbidden, fmt::format("the key lacks the scope {}", scope))
      .with("scope", std::move(scope));
}

Error beyondPrefix(const Principal& principal) {
  return Error(Code::Forbidden,
               fmt::format("the key reaches only sessions and users that begin with \"{}\"",
                           printable(*principal.session_prefix)))
      .with("session_prefix", *principal.session_prefix);
}

bool hasInvoke(const Principal& principal, std::string_view function_id) {
  return principal.has(kInvoke) ||
         principal.scopes.contains(std::string(kInvokeOne) + std::string(function_id));
}

bool hasSomeInvoke(const Principal& principal) {
  const auto first = principal.scopes.lower_bound(kInvokeOne);
  return first != principal.scopes.end() && first->starts_with(kInvokeOne);
}

// `invoke:cart` is enough where the path names the function, or the handler will ask for it.
bool mayInvoke(const Principal& principal, const http::Request& request, const http::Route& route) {
  if (!hasSomeInvoke(principal)) return false;
  if (request.parameters.has("id")) return hasInvoke(principal, request.parameters["id"]);
  return route.checks_reach;
}

// Logs that functions keep have the user `_`, and their session is the function's.
bool pathIsWithin(const Principal& principal, const http::PathParameters& path) {
  if (path.has("session_key")) return principal.reachesSession(path["session_key"]);
  if (!path.has("user")) return false;
  const bool is_function = path["user"] == "_";
  if (is_function && !path.has("sid")) return false;  // it is of all sessions
  return principal.reachesSession(path[is_function ? "sid" : "user"]);
}

}  // namespace

bool Principal::has(std::string_view scope) const {
  return scopes.contains(kAdmin) || scopes.contains(scope);
}

Result<> checkScope(std::string_view scope) {
  if (isAmong(kScopes, scope)) return {};
  if (scope.starts_with(kInvokeOne)) {
    return checkName("the function of invoke:<function>", scope.substr(kInvokeOne.size()));
  }
  const std::string allowed = fmt::format("{}, invoke:<function>", fmt::join(kScopes, ", "));
  return Error(Code::InvalidArgument,
               fmt::format("there is no scope \"{}\"; there are {}", printable(scope), allowed))
      .with("allowed", allowed);
}

const Principal& principalOf(const http::Request& request) {
  NIMBUS_ASSERT(request.principal != nullptr, "routes with a scope know who asks");
  return *static_cast<const Principal*>(request.principal.get());
}

Result<> checkRoute(const Principal& principal, const http::Request& request,
                    const http::Route& route) {
  if (!principal.has(route.scope) &&
      !(route.scope == kInvoke && mayInvoke(principal, request, route))) {
    return lacksScope(route.scope);
  }
  if (!principal.session_prefix || route.checks_reach || isAmong(kWithoutSessions, route.scope) ||
      pathIsWithin(principal, request.parameters)) {
    return {};
  }
  return beyondPrefix(principal);
}

Result<> checkSession(const http::Request& request, const std::optional<std::string>& session_key) {
  const Principal& principal = principalOf(request);
  if (!principal.session_prefix) return {};
  if (session_key && principal.reachesSession(*session_key)) return {};
  return beyondPrefix(principal);
}

Result<> checkInvoke(const http::Request& request, std::string_view function_id) {
  if (hasInvoke(principalOf(request), function_id)) return {};
  return lacksScope(std::string(kInvokeOne) + std::string(function_id));
}

Result<> checkAllSessions(const http::Request& request) {
  const Principal& principal = principalOf(request);
  if (!principal.session_prefix) return {};
  return beyondPrefix(principal);
}

}  // namespace nimbus::gateway
