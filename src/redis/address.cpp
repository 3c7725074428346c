#include "redis/address.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>

namespace nimbus::redis {
namespace {

Error wrong(std::string message) {
  return {Code::InvalidArgument, std::move(message)};
}

template <typename T>
std::optional<T> number(std::string_view text) {
  T value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (text.empty() || failure != std::errc() || stop != end) return std::nullopt;
  return value;
}

Result<std::string> decode(std::string_view text) {
  std::string decoded;
  while (!text.empty()) {
    if (text.front() != '%') {
      decoded += text.front();
      text.remove_prefix(1);
      continue;
    }
    int byte = 0;
    const char* const begin = text.data() + 1;
    if (text.size() < 3 || std::from_chars(begin, begin + 2, byte, 16).ptr != begin + 2) {
      return wrong("the user or password in the address of Redis has a '%' that encodes nothing");
    }
    decoded += static_cast<char>(byte);
    text.remove_prefix(3);
  }
  return decoded;
}

Result<Credentials> parseCredentials(std::string_view text) {
  const std::size_t colon = text.find(':');
  Credentials credentials;
  if (colon != text.npos) {
    NIMBUS_TRY(credentials.username, decode(text.substr(0, colon)));
    NIMBUS_TRY(credentials.password, decode(text.substr(colon + 1)));
  } else {
    NIMBUS_TRY(credentials.password, decode(text));
  }
  return credentials;
}

Result<> parseScheme(std::string_view scheme, Url& url) {
  url.tls = scheme.starts_with("rediss");
  url.cluster = scheme.ends_with("+cluster");
  for (const char* known : {"redis", "rediss", "redis+cluster", "rediss+cluster"}) {
    if (scheme == known) return {};
  }
  return wrong("an address of Redis begins with redis://, rediss:// or redis+cluster://");
}

}  // namespace

Result<Address> parseAddress(std::string_view text) {
  Address address;
  std::string_view port;
  if (text.starts_with('[')) {
    const std::size_t close = text.find(']');
    if (close == text.npos) return wrong(fmt::format("'{}' has no ']'", text));
    address.host = text.substr(1, close - 1);
    port = text.substr(close + 1);
  } else {
    const std::size_t colon = text.find(':');
    address.host = text.substr(0, colon);
    if (colon != text.npos) port = text.substr(colon);
  }
  if (address.host.empty()) return wrong(fmt::format("'{}' names no host", text));
  if (port.empty()) return address;
  const auto parsed = number<std::uint16_t>(port.substr(1));
  if (port.front() != ':' || !parsed || *parsed == 0) {
    return wrong(fmt::format("'{}' is no HOST:PORT", text));
  }
  address.port = *parsed;
  return address;
}

std::string toString(const Address& address) {
  const bool is_v6 = address.host.find(':') != std::string::npos;
  return is_v6 ? fmt::format("[{}]:{}", address.host, address.port)
               : fmt::format("{}:{}", address.host, address.port);
}

Result<Url> parseUrl(std::string_view text) {
  Url url;
  const std::size_t scheme = text.find("://");
  NIMBUS_CHECK(parseScheme(text.substr(0, scheme == text.npos ? 0 : scheme), url));
  text.remove_prefix(scheme + 3);
  if (const std::size_t at = text.rfind('@'); at != text.npos) {
    NIMBUS_TRY(url.credentials, parseCredentials(text.substr(0, at)));
    text.remove_prefix(at + 1);
  }
  if (const std::size_t slash = text.find('/'); slash != text.npos) {
    const std::string_view database = text.substr(slash + 1);
    if (!database.empty()) {
      const auto parsed = number<std::uint16_t>(database);
      if (!parsed) return wrong(fmt::format("'{}' is no number of a database", database));
      if (url.cluster && *parsed != 0) return wrong("a Redis Cluster has only database 0");
      url.database = *parsed;
    }
    text = text.substr(0, slash);
  }
  while (true) {
    const std::size_t comma = text.find(',');
    NIMBUS_TRY(auto address, parseAddress(text.substr(0, comma)));
    url.addresses.push_back(std::move(address));
    if (comma == text.npos) return url;
    text.remove_prefix(comma + 1);
  }
}

}  // namespace nimbus::redis
