#pragma once
// Where a server is.

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::client {

struct Url {
  bool tls = false;
  std::string host;  // without the brackets of IPv6
  std::uint16_t port = 0;
  std::string prefix;  // of every path: "" or "/behind/a/proxy"

  std::string text() const;
  // "host:port" as the Host header has it.
  std::string authority() const;
  // Whether only this machine can be meant.
  bool isLoopback() const;
};

// "http://127.0.0.1:8787", "https://example.org/nimbus", "127.0.0.1:8787". InvalidArgument if it is
// none of the kind.
Result<Url> parseUrl(std::string_view text);

// `text` as one segment of a path or one value of a query.
std::string encoded(std::string_view text);

}  // namespace nimbus::client
