#pragma once
// A process as other processes of the same machine can tell it from all others, so that they know
// when it is gone, without waiting for its lease.

#include <cstdint>
#include <string>

namespace nimbus::cluster {

struct ProcessIdentity {
  std::string machine;      // its boot and process namespace; empty: unknown
  std::int64_t pid = 0;     // in that namespace
  std::uint64_t start = 0;  // in ticks since the boot: a later process of the same pid has another

  static ProcessIdentity own();

  bool operator==(const ProcessIdentity&) const = default;
};

// True only if it is certain: it ran on this machine, and is no more. One that is stopped, or that
// cannot be seen from here, is not gone.
bool isGone(const ProcessIdentity& process);

}  // namespace nimbus::cluster
