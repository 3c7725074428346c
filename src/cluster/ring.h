#pragma once
// Proposes who is to own what nobody owns: a consistent hash, so that a node that comes or goes
// moves no more than its share. It only proposes; the claim in the store decides.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::cluster {

// Where a session lies on the ring.
std::uint64_t pointOf(std::string_view function_id, std::string_view session_key);

class Ring {
 public:
  // Points that each node has. With 128 the busiest of ten nodes has some 1.2 times its share.
  static constexpr std::size_t kPoints = 128;

  Ring() = default;
  explicit Ring(const std::vector<std::string>& ids);

  // The place, in the list that the ring was made of, of the node that is proposed.
  std::optional<std::size_t> ownerOf(std::uint64_t point) const;

  // The part of all points, by the place in the list, that each has.
  std::vector<double> shares() const;

 private:
  struct Point {
    std::uint64_t at = 0;
    std::size_t node = 0;
  };
  std::vector<Point> points_;  // sorted
  std::size_t nodes_ = 0;
};

}  // namespace nimbus::cluster
