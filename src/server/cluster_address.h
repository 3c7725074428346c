#pragma once
// Where a node listens for others, and what it tells them.

#include "base/result.h"
#include "server/config.h"
#include "server/listen_address.h"

#include <cstdint>
#include <string>

namespace nimbus::server {

// `clients`: where it listens for clients.
Result<ListenAddress> peerListenAddress(const ClusterConfig& config, const ListenAddress& clients);

// "10.0.0.7:8788". One that listens on all addresses tells others the first that is not loopback.
std::string peerAddress(const ClusterConfig& config, const ListenAddress& listen,
                        std::uint16_t port);

}  // namespace nimbus::server
