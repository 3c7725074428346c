#include "dispatch/cells.h"

#include <new>

namespace nimbus::dispatch {

// Whoever took cells has given them back; an empty block is kept only while it has room.
Cells::~Cells() {
  while (with_room_ != nullptr) {
    Block& block = *with_room_;
    unlist(block);
    ::operator delete(&block, std::align_val_t(kBlockSize));
  }
}

void* Cells::take() {
  if (with_room_ == nullptr) {
    void* const memory = ::operator new(kBlockSize, std::align_val_t(kBlockSize));
    enlist(*new (memory) Block);
  }
  Block& block = *with_room_;
  if (++block.used == kCellsPerBlock) unlist(block);
  if (block.free != nullptr) {
    Free* const cell = block.free;
    block.free = cell->next;
    return cell;
  }
  return reinterpret_cast<std::byte*>(&block) + kCellSize * ++block.untouched;
}

void Cells::giveBack(void* cell) {
  const auto address = reinterpret_cast<std::uintptr_t>(cell);
  auto& block = *reinterpret_cast<Block*>(address - address % kBlockSize);
  block.free = new (cell) Free{block.free};
  if (block.used-- == kCellsPerBlock) enlist(block);
  if (block.used != 0) return;
  unlist(block);
  ::operator delete(&block, std::align_val_t(kBlockSize));
}

void Cells::enlist(Block& block) {
  block.previous = nullptr;
  block.next = with_room_;
  if (with_room_ != nullptr) with_room_->previous = &block;
  with_room_ = &block;
}

void Cells::unlist(Block& block) {
  if (block.previous != nullptr) {
    block.previous->next = block.next;
  } else {
    with_room_ = block.next;
  }
  if (block.next != nullptr) block.next->previous = block.previous;
}

}  // namespace nimbus::dispatch
