#include "gateway/refusal_budget.h"

#include <utility>

namespace nimbus::gateway {

bool RefusalBudget::admit(std::string_view address, SteadyTime now) {
  const std::lock_guard lock(mutex_);
  if (now - window_begin_ >= kWindow) {
    window_begin_ = now;
    together_ = 0;
    recorded_.clear();
  }
  // Each address in it has had at least one recorded, so this map has its bound, too.
  if (together_ < kTogether) {
    auto recorded = recorded_.find(address);
    if (recorded == recorded_.end()) recorded = recorded_.emplace(address, 0).first;
    if (recorded->second < kPerAddress) {
      ++recorded->second;
      ++together_;
      return true;
    }
  }
  auto counted = counted_.find(address);
  if (counted == counted_.end()) {
    const bool has_room = counted_.size() < kMostAddresses;
    counted = counted_.try_emplace(has_room ? std::string(address) : std::string(), 0).first;
  }
  ++counted->second;
  return false;
}

std::vector<RefusalBudget::Count> RefusalBudget::takeCounts() {
  std::map<std::string, std::uint64_t, std::less<>> counted;
  {
    const std::lock_guard lock(mutex_);
    std::swap(counted, counted_);
  }
  std::vector<Count> counts;
  for (auto& [address, refusals] : counted) counts.push_back({address, refusals});
  return counts;
}

}  // namespace nimbus::gateway
