#include "dispatch/session_store.h"

#include <algorithm>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define NIMBUS_POISON(memory, size) ASAN_POISON_MEMORY_REGION(memory, size)
#define NIMBUS_UNPOISON(memory, size) ASAN_UNPOISON_MEMORY_REGION(memory, size)
#endif
#endif
#ifndef NIMBUS_POISON
#define NIMBUS_POISON(memory, size) ((void)0)
#define NIMBUS_UNPOISON(memory, size) ((void)0)
#endif

namespace nimbus::dispatch {
namespace {

// A huge page is the size of a block and must be aligned like one.
constexpr std::align_val_t kBlockAlignment{2 * 1024 * 1024};

}  // namespace

static_assert(sizeof(Session) == kCacheLine);

SessionStore::~SessionStore() {
  for (std::size_t i = 0; i < usage_.size(); ++i) {
    if (blocks_[i].load(std::memory_order_relaxed) != nullptr) removeBlock(i);
  }
}

Session& SessionStore::make(std::string_view name, std::uint32_t hash, Worker& worker) {
  const std::lock_guard lock(mutex_);
  const auto isFull = [this](std::size_t block) {
    return block < usage_.size() && usage_[block].used == kCells;
  };
  while (isFull(first_with_room_)) ++first_with_room_;
  const std::size_t block = first_with_room_;
  if (block == kMostBlocks) throw std::bad_alloc();
  if (blocks_[block].load(std::memory_order_relaxed) == nullptr) addBlock(block);

  Usage& usage = usage_[block];
  SessionNumber number = usage.first_free;
  if (number == kNoSession) number = static_cast<SessionNumber>(block * kCells + usage.begun);
  Session* const cell = at(number);
  NIMBUS_UNPOISON(cell, sizeof(Session));
  if (number == usage.first_free) {
    usage.first_free = *std::launder(reinterpret_cast<SessionNumber*>(cell));
  } else {
    ++usage.begun;
  }
  ++usage.used;
  ++used_;
  assess();
  return *std::construct_at(cell, number, name, hash, worker);
}

void SessionStore::free(Session& session) {
  const std::lock_guard lock(mutex_);
  const std::size_t block = session.number / kCells;
  const SessionNumber number = session.number;
  Usage& usage = usage_[block];
  std::destroy_at(&session);
  new (&session) SessionNumber(usage.first_free);
  NIMBUS_POISON(&session, sizeof(Session));
  usage.first_free = number;
  --usage.used;
  --used_;
  first_with_room_ = std::min(first_with_room_, block);
  // Not the last one, and not one that would soon be needed again.
  const bool is_empty = usage.used == (block == 0 ? 1 : 0);
  if (is_empty && used_ + kCells / 2 <= (present_ - 1) * kCells) removeBlock(block);
  assess();
}

void SessionStore::addBlock(std::size_t block) {
  if (usage_.size() <= block) usage_.resize(block + 1);
  void* const memory = ::operator new(kBlockSize, kBlockAlignment);
#if defined(MADV_HUGEPAGE)
  // The first one is for those who have few: it grows page by page.
  if (block > 0) madvise(memory, kBlockSize, MADV_HUGEPAGE);
#endif
  NIMBUS_POISON(memory, kBlockSize);
  usage_[block] = Usage();
  ++present_;
  // The number zero is no session's.
  if (block == 0) usage_[0] = {.used = 1, .begun = 1};
  blocks_[block].store(static_cast<Session*>(memory), std::memory_order_release);
}

void SessionStore::removeBlock(std::size_t block) {
  Session* const memory = blocks_[block].exchange(nullptr, std::memory_order_relaxed);
  NIMBUS_UNPOISON(memory, kBlockSize);
  ::operator delete(memory, kBlockAlignment);
  usage_[block] = Usage();
  --present_;
}

void SessionStore::assess() {
  const std::size_t enough = 2 * used_ / kCells + 1;
  enough_blocks_.store(present_ > 2 * enough ? enough : kMostBlocks, std::memory_order_relaxed);
}

}  // namespace nimbus::dispatch
