#pragma once
// Who may do what.
//
// A caller shows a key, `Authorization: Bearer nk_...`; a key belongs to a Principal, which has
// scopes; a route names the scope it needs. Keys are held as hashes and compared in constant time.

#include "http/authorizer.h"

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::gateway {

// SHA-256. Keys have 256 random bits, so nothing slower is needed.
using KeyHash = std::array<unsigned char, 32>;
KeyHash hashKey(std::string_view key);

// In Request::principal of every request that was let in with a key.
struct Principal {
  std::string name;
  std::set<std::string, std::less<>> scopes;  // "admin" has all of them

  bool has(std::string_view scope) const;
};

class Authorization final : public http::Authorizer {
 public:
  struct Options {
    // Routes of these scopes are open to everyone.
    std::set<std::string, std::less<>> public_scopes;
    // False: everyone is the administrator.
    bool authenticate = true;
  };

  explicit Authorization(Options options);

  // Before the server starts.
  void addKey(std::string_view key, Principal principal);

  Task<Result<>> authorize(http::Request& request, const http::Route& route) override;

 private:
  struct Credential {
    KeyHash hash{};
    Principal principal;
  };

  Result<> check(http::Request& request, const http::Route& route) const;
  const Principal* find(std::string_view key) const;

  const Options options_;
  std::vector<Credential> credentials_;
};

}  // namespace nimbus::gateway
