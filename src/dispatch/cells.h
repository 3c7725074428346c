#pragma once
// Memory for small objects of one cache line each, so that whoever looks at one waits for one line
// only. Blocks whose cells are all unused go back to the system. Not thread-safe.

#include "dispatch/pins.h"

#include <cstddef>
#include <cstdint>

namespace nimbus::dispatch {

class Cells {
 public:
  static constexpr std::size_t kCellSize = kCacheLine;

  Cells() = default;
  ~Cells();
  Cells(const Cells&) = delete;
  Cells& operator=(const Cells&) = delete;

  void* take();
  void giveBack(void* cell);

 private:
  // A block begins at a multiple of its size; its first cell tells about the others.
  static constexpr std::size_t kBlockSize = 4096;
  static constexpr std::size_t kCellsPerBlock = kBlockSize / kCellSize - 1;

  struct Free {
    Free* next;
  };
  struct Block {
    Free* free = nullptr;       // given back
    std::size_t untouched = 0;  // how many were ever given out
    std::size_t used = 0;
    Block* next = nullptr;  // of those with room
    Block* previous = nullptr;
  };

  void enlist(Block& block);
  void unlist(Block& block);

  Block* with_room_ = nullptr;
};

}  // namespace nimbus::dispatch
