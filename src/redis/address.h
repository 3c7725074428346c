#pragma once
// Where Redis is, and as whom it is spoken to.

#include "base/result.h"

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::redis {

struct Address {
  std::string host;
  std::uint16_t port = 6379;

  auto operator<=>(const Address&) const = default;
};

// "HOST:PORT", "[::1]:PORT", or without the port. InvalidArgument for anything else.
Result<Address> parseAddress(std::string_view text);
std::string toString(const Address& address);

struct Credentials {
  std::string username;  // empty: the default user
  std::string password;  // empty: none
};

struct Url {
  std::vector<Address> addresses;  // at least one
  Credentials credentials;
  int database = 0;
  bool cluster = false;
  bool tls = false;
};

// redis://[USER:PASSWORD@]HOST[:PORT][,HOST[:PORT]...][/DB]; rediss:// with TLS; redis+cluster://
// and rediss+cluster:// for a Redis Cluster. User and password may be percent-encoded.
// InvalidArgument, which never shows the password.
Result<Url> parseUrl(std::string_view text);

}  // namespace nimbus::redis
