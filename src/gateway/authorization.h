#pragma once
// Who may do what.
//
// A caller shows a key, `Authorization: Bearer nk_...`, or is a device with a token; that belongs
// to a Principal, which has scopes; a route names the scope it needs. Keys are held as hashes and
// compared in constant time. What is allowed is then counted against the limits, and what is not is
// recorded.

#include "base/metrics.h"
#include "gateway/api_key.h"
#include "gateway/principal.h"
#include "http/authorizer.h"
#include "store/store.h"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::gateway {

class Audit;
class KeyRing;
class RateLimits;

class Authorization final : public http::Authorizer {
 public:
  struct Options {
    // Routes of these scopes are open to everyone.
    std::set<std::string, std::less<>> public_scopes;
    // False: everyone who does not claim to be a device is the administrator, and none has limits.
    bool authenticate = true;
  };
  // All must outlive the Authorization.
  struct Parts {
    KeyRing& keys;
    RateLimits& limits;
    Audit& audit;
    const store::Store& store;  // its clock
  };

  Authorization(Options options, Parts parts);

  void addTo(Metrics& metrics);

  // A key that is always good, with every scope and without limits. Before the server starts.
  void addAdministrator(const KeyHash& hash);

  Task<Result<>> authorize(http::Request& request, const http::Route& route) override;

 private:
  // `found`: what is known under the id; null if nothing is.
  Result<PrincipalPtr> recognize(std::string_view secret, const ApiKey* found) const;
  bool isAdministrator(const KeyHash& hash) const;
  Task<Result<>> refuse(const http::Request& request, const http::Route& route, Error error,
                        PrincipalPtr principal);

  const Options options_;
  const Parts parts_;
  const PrincipalPtr administrator_;
  const PrincipalPtr anyone_;
  std::vector<KeyHash> administrator_hashes_;
  std::optional<Counter> unauthenticated_;
  std::optional<Counter> forbidden_;
};

}  // namespace nimbus::gateway
