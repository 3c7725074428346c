#pragma once
// Where sessions live: cells of one cache line in large blocks, known by their number. A number is
// half a pointer, which halves the table that leads to them, and large blocks are few pages: with
// many sessions a submit mostly waits for memory.

#include "dispatch/session.h"

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

class SessionStore {
  static constexpr SessionNumber kCells = 32 * 1024;  // in a block of two megabytes
  static constexpr std::size_t kMostBlocks = 8 * 1024;

 public:
  static constexpr SessionNumber kMostSessions = kCells * kMostBlocks;  // numbers are below

  SessionStore() = default;
  ~SessionStore();
  SessionStore(const SessionStore&) = delete;
  SessionStore& operator=(const SessionStore&) = delete;

  // The session with this number, which was made and is not freed.
  Session* at(SessionNumber number) const {
    return blocks_[number / kCells].load(std::memory_order_acquire) + number % kCells;
  }

  // Throws std::bad_alloc if memory or numbers are used up.
  Session& make(std::string_view name, std::uint32_t hash, Worker& worker);

  // Nobody may look at it any more.
  void free(Session& session);

  // Whether all sessions would find room in the first few of many blocks, and this one stands
  // behind them. Made again it would stand there, and blocks would become empty.
  bool isFarOut(const Session& session) const {
    return session.number / kCells >= enough_blocks_.load(std::memory_order_relaxed);
  }

 private:
  static constexpr std::size_t kBlockSize = kCells * sizeof(Session);

  struct Usage {
    SessionNumber used = 0;
    SessionNumber begun = 0;                // cells from here on were never used
    SessionNumber first_free = kNoSession;  // of those before
  };

  void addBlock(std::size_t block);
  void removeBlock(std::size_t block);
  void assess();

  std::array<std::atomic<Session*>, kMostBlocks> blocks_ = {};
  std::atomic<std::size_t> enough_blocks_ = kMostBlocks;

  std::mutex mutex_;
  std::vector<Usage> usage_;         // of each block, also of those that are not there
  std::size_t used_ = 0;             // cells
  std::size_t present_ = 0;          // blocks
  std::size_t first_with_room_ = 0;  // no block before it has a free cell
};

}  // namespace nimbus::dispatch
