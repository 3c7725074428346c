#pragma once
// Tells when nobody can still hold a pointer that was taken out of a shared structure.
//
// Whoever reads without a lock pins its stripe first. Whoever has unlinked something asks
// isQuiet(): if it says yes, no pin from before the unlinking is left, and what comes after cannot
// find it. Pinning and asking are both read-modify-writes of one counter, hence ordered: the later
// one sees what the earlier one's thread did.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace nimbus::dispatch {

inline constexpr std::size_t kCacheLine = 64;

class PinCounter {
 public:
  void enter() { count_.fetch_add(1, std::memory_order_acq_rel); }
  void leave() { count_.fetch_sub(1, std::memory_order_release); }
  bool isQuiet() { return count_.fetch_add(0, std::memory_order_acq_rel) == 0; }

  // Looks for a quiet moment for a little while: where many come and go there are few.
  bool becomesQuiet() {
    for (int i = 0; i < kLooks; ++i) {
      if (count_.load(std::memory_order_relaxed) == 0 && isQuiet()) return true;
    }
    return false;
  }

 private:
  static constexpr int kLooks = 1000;

  std::atomic<std::uint32_t> count_ = 0;
};

class [[nodiscard]] Pin {
 public:
  explicit Pin(PinCounter& counter) : counter_(&counter) { counter_->enter(); }
  ~Pin() { release(); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;

  void release() {
    if (counter_ != nullptr) counter_->leave();
    counter_ = nullptr;
  }

 private:
  PinCounter* counter_;
};

}  // namespace nimbus::dispatch
