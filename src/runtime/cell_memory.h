#pragma once
// What all processes of a cell take together. Private to runtime/.

#include <cstdint>

namespace nimbus::runtime {

// A /proc that shows all processes of the caller's pid namespace, mounted nowhere; -1 if there can
// be none.
int openProcesses();

// The memory that all of them but the first have, in bytes. What they share is counted once if that
// makes the difference between more and no more than `limit`.
std::uint64_t memoryOfAll(int processes, std::uint64_t limit);

}  // namespace nimbus::runtime
