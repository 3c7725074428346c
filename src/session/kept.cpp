#include "session/kept.h"

#include <algorithm>
#include <utility>

namespace nimbus::session {

void Kept::change(std::string_view session_key, KeptTotals by) {
  if (!is_counting_.load(std::memory_order_acquire)) {
    sessions_.fetch_add(by.sessions, std::memory_order_relaxed);
    bytes_.fetch_add(by.bytes, std::memory_order_relaxed);
    return;
  }
  const std::lock_guard lock(mutex_);
  sessions_.fetch_add(by.sessions, std::memory_order_relaxed);
  bytes_.fetch_add(by.bytes, std::memory_order_relaxed);
  if (session_key > counted_to_) return;
  count_.sessions += by.sessions;
  count_.bytes += by.bytes;
}

std::optional<KeptTotals> Kept::totals() const {
  if (!is_known_.load(std::memory_order_acquire)) return std::nullopt;
  // What is counted while it changes may be off by the change, until the next count; never shown is
  // what cannot be.
  return KeptTotals{std::max<std::int64_t>(sessions_.load(std::memory_order_relaxed), 0),
                    std::max<std::int64_t>(bytes_.load(std::memory_order_relaxed), 0)};
}

void Kept::beginCount() {
  const std::lock_guard lock(mutex_);
  counted_to_.clear();
  count_ = {};
  is_counting_.store(true, std::memory_order_release);
}

void Kept::counted(std::string up_to, KeptTotals found) {
  const std::lock_guard lock(mutex_);
  counted_to_ = std::move(up_to);
  count_.sessions += found.sessions;
  count_.bytes += found.bytes;
}

void Kept::endCount(std::int64_t function_bytes) {
  const std::lock_guard lock(mutex_);
  sessions_.store(count_.sessions, std::memory_order_relaxed);
  bytes_.store(count_.bytes + function_bytes, std::memory_order_relaxed);
  is_known_.store(true, std::memory_order_release);
  is_counting_.store(false, std::memory_order_release);
}

void Kept::abandonCount() {
  is_counting_.store(false, std::memory_order_release);
}

}  // namespace nimbus::session
