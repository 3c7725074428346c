#pragma once
// The keeper's own side: what runs in its process. Private to runtime/.
//
// Messages are packets of a SOCK_SEQPACKET socket.
//   Start  from the server: id, and the command as texts that end with NUL each; three descriptors,
//          and the namespaces of the cell it is to run in, if any
//   Cell   from the server: id, and what is to be seen in the cell as texts; its control socket
//   Kill   from the server: the process
//   Started, Failed (with errno), Ended (with the status of waitpid) from the keeper

#include "runtime/system_call_filter.h"

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace nimbus::runtime {

enum class KeeperMessage : std::uint32_t { Start = 1, Cell, Kill, Started, Failed, Ended };

// How every message begins.
struct KeeperHead {
  KeeperMessage kind = KeeperMessage::Start;
  std::uint32_t id = 0;      // of a Start and its answer
  std::int32_t process = 0;  // Kill, Started, Ended
  // Failed: errno; Ended: the status; Start: how many are arguments; Cell: 1 with network
  std::int32_t number = 0;
  // Start: arguments, then the environment, then the directory; Cell: the folder of code, then what
  // is seen and where
  std::uint32_t texts = 0;
};

inline constexpr std::size_t kMaxKeeperMessage = 256UL * 1024;

// Serves until the other end of `socket` is closed, then ends all children and exits.
[[noreturn]] void runKeeper(int socket, const SystemCallFilter& filter);

}  // namespace nimbus::runtime
