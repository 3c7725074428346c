#include "server/listen_address.h"

#include "base/json_text.h"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace nimbus::server {
namespace {

namespace ip = boost::asio::ip;

std::optional<std::uint16_t> parsePort(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return port;
}

// 127.0.0.1 in the clothes of IPv6 is as local as it is without.
bool isLoopback(const ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return ip::make_address_v4(ip::v4_mapped, address.to_v6()).is_loopback();
  }
  return address.is_loopback();
}

}  // namespace

Result<ListenAddress> parseListenAddress(std::string_view text) {
  const auto invalid = [&](std::string_view why) {
    return Error(Code::InvalidArgument, fmt::format("\"{}\" {}; write HOST:PORT, such as "
                                                    "127.0.0.1:8787 or [::1]:8787",
                                                    printable(text), why));
  };
  const std::size_t colon = text.rfind(':');
  if (colon == text.npos) return invalid("has no port");
  std::string_view host = text.substr(0, colon);
  const bool bracketed = host.size() >= 2 && host.front() == '[' && host.back() == ']';
  if (bracketed) host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";

  const auto port = parsePort(text.substr(colon + 1));
  if (!port) return invalid("has no port from 0 to 65535");
  boost::system::error_code failed;
  const ip::address address = ip::make_address(host, failed);
  if (failed) return invalid("names no IP address");
  // Without brackets the last group of an IPv6 address would be taken for the port.
  if (address.is_v6() != bracketed)
    return invalid("must have brackets around IPv6, and only there");
  return ListenAddress{address.to_string(), *port, isLoopback(address)};
}

std::string hostAndPort(std::string_view address, std::uint16_t port) {
  const bool is_v6 = address.find(':') != address.npos;
  return is_v6 ? fmt::format("[{}]:{}", address, port) : fmt::format("{}:{}", address, port);
}

}  // namespace nimbus::server
