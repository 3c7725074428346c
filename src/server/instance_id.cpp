#include "server/instance_id.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>

namespace nimbus::server {
namespace {

constexpr std::size_t kMostOfHost = 63;
constexpr std::size_t kRandomCharacters = 8;

std::string cleaned(std::string_view host) {
  std::string out(host.substr(0, kMostOfHost));
  for (char& c : out) {
    const bool allowed = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_';
    if (!allowed) c = '-';
  }
  return out.empty() ? "localhost" : out;
}

}  // namespace

std::string makeInstanceId(std::string_view host, int pid, Timestamp now, Random& random) {
  std::array<char, 16> base36{};
  const char* const end = std::to_chars(base36.data(), base36.data() + base36.size(),
                                        now.time_since_epoch().count(), 36)
                              .ptr;
  return fmt::format("gw-{}-{}-{}-{}", cleaned(host), pid, std::string_view(base36.data(), end),
                     random.base36(kRandomCharacters));
}

std::string hostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace nimbus::server
