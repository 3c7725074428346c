#pragma once
// How one node tells another who is asking.

#include "gateway/principal.h"
#include "http/authorizer.h"

#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nimbus::gateway {

// Header fields between nodes. Whoever else sends them is not believed, and they are not passed on.
inline constexpr std::string_view kPeerFields = "Nimbus-Node-";
inline constexpr std::string_view kPeerSecret = "Nimbus-Node-Secret";
inline constexpr std::string_view kPeerPrincipal = "Nimbus-Node-Principal";
inline constexpr std::string_view kPeerRequest = "Nimbus-Node-Request";
// The call may have been taken before, under the same request id.
inline constexpr std::string_view kPeerRepeats = "Nimbus-Node-Repeats";
// Of an answer with kMisdirected: the node that owns the session, if that is known.
inline constexpr std::string_view kPeerOwner = "Nimbus-Node-Owner";
inline constexpr int kMisdirected = 421;

// As a header field can carry it.
std::string principalText(const Principal& principal);
// Forwarded, whatever it was.
Result<PrincipalPtr> parsePrincipal(std::string_view text);

// Lets nodes in that show the secret. What they ask for was allowed, counted and recorded where it
// came from.
class PeerAuthorizer final : public http::Authorizer {
 public:
  explicit PeerAuthorizer(const std::string& secret) : secret_(secret) {}

  Task<Result<>> authorize(http::Request& request, const http::Route& route) override;

 private:
  Result<PrincipalPtr> principalOf(std::string_view text);

  const std::string& secret_;
  std::mutex mutex_;
  std::unordered_map<std::string, PrincipalPtr> known_;  // by text; guarded
};

}  // namespace nimbus::gateway
