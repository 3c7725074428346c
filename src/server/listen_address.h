#pragma once

#include "base/result.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::server {

// Where to listen: an IP address and a port.
struct ListenAddress {
  std::string address;  // without the brackets of IPv6
  std::uint16_t port = 0;
  bool is_loopback = false;
};

// "127.0.0.1:8787", "[::1]:0", "localhost:8787". Host names other than localhost are refused: what
// they resolve to may change, and with it who can reach the server.
Result<ListenAddress> parseListenAddress(std::string_view text);

// The address as a URL has it: "[::1]:8787".
std::string hostAndPort(std::string_view address, std::uint16_t port);

}  // namespace nimbus::server
