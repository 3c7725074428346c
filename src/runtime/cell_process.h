#pragma once
// A cell from inside: what runs in its first process, and what a process does that moves in.
// Private to runtime/.
//
// A cell is a set of namespaces with a first process of ours in it. That one makes what there is to
// see (a read-only system, a private /tmp), mounts code where it is told to, and keeps the rest
// alive: when it ends, the kernel ends everything in the cell. It ends when the other end of its
// control socket is closed.
//
// The control socket is SOCK_SEQPACKET. First the cell says that it is ready, with its
// namespaces as descriptors; then each order is answered.
//   order   two texts that end with NUL each: a path in the folder of code, where to mount it
//   answer  CellAnswer
// An order with an empty path is answered only if all processes together have more memory than the
// second text says, in bytes: by the cell's end, and why.

#include "runtime/system_call_filter.h"

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace nimbus::runtime {

// The user that functions are inside, and outside if the server is root.
inline constexpr unsigned kUserInside = 1000;
inline constexpr unsigned kNobody = 65534;

// Those of a cell with a network of its own, which is none.
inline constexpr std::size_t kMaxNamespaces = 7;
inline constexpr std::size_t kMaxCellOrder = 8192;

struct CellAnswer {
  std::int32_t error = 0;  // errno
  std::array<char, 60> doing{};
};

struct CellPlan {
  bool has_network = false;  // the host's
  const char* code = nullptr;
  // Besides the system: paths of the host, and where they are to be seen.
  std::vector<std::pair<const char*, const char*>> seen;
};

// In a process that was just cloned into a user and a pid namespace of its own, whose users are
// mapped.
[[noreturn]] void runCell(int control, const CellPlan& plan);

// Moves the calling process into the namespaces, so that its next child is in the cell. False:
// errno says why.
bool enterCell(std::span<const int> namespaces);

// In that child: takes all rights from it. False: errno says why.
bool confine(const SystemCallFilter& filter);

}  // namespace nimbus::runtime
