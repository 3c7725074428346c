#pragma once
// A consistent-hash ring with virtual nodes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace nimbus::dispatch {

class Ring {
 public:
  // Member i gets points in proportion to weights[i].
  explicit Ring(const std::vector<unsigned>& weights);

  // The first member from the hash's point on, around the ring, that `accepts`; size() if none.
  std::size_t find(std::uint64_t hash, const std::function<bool(std::size_t)>& accepts) const;

  std::size_t size() const { return members_; }

 private:
  static constexpr unsigned kPointsPerWeight = 160;

  struct Point {
    std::uint64_t at;
    std::size_t member;
  };

  std::size_t members_;
  std::vector<Point> points_;
};

}  // namespace nimbus::dispatch
