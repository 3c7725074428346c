#include "gateway/peer_principal.h"

#include "base/json.h"
#include "base/json_text.h"
#include "http/percent.h"

#include <fmt/format.h>
#include <sodium.h>

#include <iterator>
#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::size_t kMostKnown = 1'000;

std::string forHeader(std::string_view text) {
  std::string encoded;
  encoded.reserve(text.size());
  for (const char byte : text) {
    const bool is_plain = byte > ' ' && byte <= '~' && byte != '%';
    if (is_plain) {
      encoded += byte;
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(byte));
    }
  }
  return encoded;
}

}  // namespace

std::string principalText(const Principal& principal) {
  std::string json = R"({"id":)";
  appendJsonString(json, principal.id);
  json += R"(,"name":)";
  appendJsonString(json, principal.name);
  json += R"(,"scopes":[)";
  for (const std::string& scope : principal.scopes) {
    if (json.back() != '[') json += ',';
    appendJsonString(json, scope);
  }
  json += ']';
  if (principal.session_prefix) {
    json += R"(,"prefix":)";
    appendJsonString(json, *principal.session_prefix);
  }
  if (principal.is_device) json += R"(,"device":true)";
  json += '}';
  return forHeader(json);
}

Result<PrincipalPtr> parsePrincipal(std::string_view text) {
  std::string json;
  NIMBUS_CHECK(http::percentDecode(text, http::Plus::Literal, json));
  NIMBUS_TRY(const JsonValue root, parseJson(json));
  const auto scopes = root.member("scopes");
  if (!root.string("id") || !scopes) {
    return Error(Code::InvalidArgument, "a node does not say who is asking");
  }
  auto principal = std::make_shared<Principal>();
  principal->id = *root.string("id");
  principal->name = root.string("name").value_or("");
  for (const JsonValue& scope : scopes->elements()) {
    principal->scopes.emplace(scope.string().value_or(""));
  }
  if (const auto prefix = root.string("prefix")) principal->session_prefix = std::string(*prefix);
  principal->is_device = root.boolean("device").value_or(false);
  principal->is_forwarded = true;
  return PrincipalPtr(std::move(principal));
}

Result<PrincipalPtr> PeerAuthorizer::principalOf(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(std::string(text));
    if (found != known_.end()) return found->second;
  }
  NIMBUS_TRY(PrincipalPtr principal, parsePrincipal(text));
  const std::lock_guard lock(mutex_);
  if (known_.size() >= kMostKnown) known_.clear();
  known_.emplace(text, principal);
  return principal;
}

Task<Result<>> PeerAuthorizer::authorize(http::Request& request, const http::Route&) {
  const std::string_view secret = request.header(kPeerSecret);
  const bool is_peer = !secret_.empty() && secret.size() == secret_.size() &&
                       sodium_memcmp(secret.data(), secret_.data(), secret.size()) == 0;
  if (!is_peer) co_return Error(Code::Unauthenticated, "this address is for nodes of the cluster");
  NIMBUS_CO_TRY(const PrincipalPtr principal, principalOf(request.header(kPeerPrincipal)));
  request.principal = principal;
  if (const std::string_view id = request.header(kPeerRequest); !id.empty()) request.id = id;
  co_return Result<>();
}

}  // namespace nimbus::gateway
