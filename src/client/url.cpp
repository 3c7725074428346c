#include "client/url.h"

#include "base/json_text.h"

#include <boost/asio/ip/address.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>

namespace nimbus::client {
namespace {

constexpr std::uint16_t kHttp = 80;
constexpr std::uint16_t kHttps = 443;

bool isUnreserved(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '.' || c == '_' || c == '~';
}

std::optional<std::uint16_t> portOf(std::string_view text) {
  std::uint16_t port = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (failed != std::errc() || end != text.data() + text.size() || port == 0) return std::nullopt;
  return port;
}

bool isHostCharacter(char c) {
  return isUnreserved(c) || c == ':' || c == '%';
}

}  // namespace

std::string Url::authority() const {
  const bool is_v6 = host.find(':') != host.npos;
  return is_v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

std::string Url::text() const {
  return fmt::format("{}://{}{}", tls ? "https" : "http", authority(), prefix);
}

bool Url::isLoopback() const {
  if (host == "localhost") return true;
  boost::system::error_code failed;
  const auto address = boost::asio::ip::make_address(host, failed);
  return !failed && address.is_loopback();
}

Result<Url> parseUrl(std::string_view text) {
  const Error wrong(Code::InvalidArgument,
                    fmt::format("\"{}\" is no address of a server, such as http://127.0.0.1:8787",
                                printable(text)));
  Url url;
  std::string_view rest = text;
  if (const std::size_t scheme = rest.find("://"); scheme != rest.npos) {
    const std::string_view name = rest.substr(0, scheme);
    if (name != "http" && name != "https") return wrong;
    url.tls = name == "https";
    rest.remove_prefix(scheme + 3);
  }
  if (rest.find_first_of("?#@") != rest.npos) return wrong;
  if (const std::size_t slash = rest.find('/'); slash != rest.npos) {
    url.prefix = rest.substr(slash);
    while (url.prefix.ends_with('/')) url.prefix.pop_back();
    rest = rest.substr(0, slash);
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == rest.npos) return wrong;
    url.host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return wrong;
    port = rest.empty() ? rest : rest.substr(1);
    if (!rest.empty() && port.empty()) return wrong;
  } else {
    const std::size_t colon = rest.find(':');
    url.host = rest.substr(0, colon);
    if (colon != rest.npos) port = rest.substr(colon + 1);
    if (colon != rest.npos && port.empty()) return wrong;
  }
  if (url.host.empty() || !std::all_of(url.host.begin(), url.host.end(), isHostCharacter)) {
    return wrong;
  }
  url.port = url.tls ? kHttps : kHttp;
  if (!port.empty()) {
    const auto number = portOf(port);
    if (!number) return wrong;
    url.port = *number;
  }
  return url;
}

std::string encoded(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    if (isUnreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kDigits[byte >> 4U];
    out += kDigits[byte & 15U];
  }
  return out;
}

}  // namespace nimbus::client
