#include "server/cluster_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <array>

namespace nimbus::server {
namespace {

// Of this machine, for others; loopback if it has no other.
std::string ownAddress() {
  std::string found = "127.0.0.1";
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    const bool is_usable = one->ifa_addr != nullptr && one->ifa_addr->sa_family == AF_INET &&
                           (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_usable) continue;
    const void* const generic = one->ifa_addr;
    const auto* const address = static_cast<const sockaddr_in*>(generic);
    std::array<char, INET_ADDRSTRLEN> text{};
    if (::inet_ntop(AF_INET, &address->sin_addr, text.data(), text.size()) == nullptr) continue;
    found = text.data();
    break;
  }
  ::freeifaddrs(all);
  return found;
}

}  // namespace

Result<ListenAddress> peerListenAddress(const ClusterConfig& config, const ListenAddress& clients) {
  if (!config.listen.empty()) return parseListenAddress(config.listen);
  ListenAddress address = clients;
  address.port = 0;
  return address;
}

std::string peerAddress(const ClusterConfig& config, const ListenAddress& listen,
                        std::uint16_t port) {
  if (!config.advertise.empty()) return config.advertise;
  const bool is_any = listen.address == "0.0.0.0" || listen.address == "::";
  return hostAndPort(is_any ? ownAddress() : listen.address, port);
}

}  // namespace nimbus::server
