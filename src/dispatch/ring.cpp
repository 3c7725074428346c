#include "dispatch/ring.h"

#include "dispatch/hash.h"

#include <algorithm>
#include <string>

namespace nimbus::dispatch {

Ring::Ring(const std::vector<unsigned>& weights) : members_(weights.size()) {
  for (std::size_t member = 0; member < weights.size(); ++member) {
    for (unsigned i = 0; i < weights[member] * kPointsPerWeight; ++i) {
      // A point depends on its member and number only, so the others stay when one comes or goes.
      const std::string name = std::to_string(member) + '#' + std::to_string(i);
      points_.push_back({hashOf(name, 0), member});
    }
  }
  std::sort(points_.begin(), points_.end(),
            [](const Point& a, const Point& b) { return a.at < b.at; });
}

std::size_t Ring::find(std::uint64_t hash, const std::function<bool(std::size_t)>& accepts) const {
  const auto start = std::lower_bound(points_.begin(), points_.end(), hash,
                                      [](const Point& p, std::uint64_t at) { return p.at < at; });
  std::size_t index = static_cast<std::size_t>(start - points_.begin());
  for (std::size_t looked = 0; looked < points_.size(); ++looked, ++index) {
    if (index == points_.size()) index = 0;
    if (accepts(points_[index].member)) return points_[index].member;
  }
  return members_;
}

}  // namespace nimbus::dispatch
