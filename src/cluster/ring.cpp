#include "cluster/ring.h"

#include <algorithm>

namespace nimbus::cluster {
namespace {

// FNV-1a tells texts apart and leaves their differences in the low bits; a ring needs them in all
// bits, which is what the finalizer of MurmurHash3 does.
constexpr std::uint64_t kFnvStart = 0xcbf29ce484222325;
constexpr std::uint64_t kFnvPrime = 0x100000001b3;
constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

std::uint64_t absorb(std::uint64_t hash, std::string_view text) {
  for (const char byte : text) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * kFnvPrime;
  }
  return hash;
}

std::uint64_t mix(std::uint64_t hash) {
  hash = (hash ^ (hash >> 33U)) * 0xff51afd7ed558ccd;
  hash = (hash ^ (hash >> 33U)) * 0xc4ceb9fe1a85ec53;
  return hash ^ (hash >> 33U);
}

}  // namespace

std::uint64_t pointOf(std::string_view function_id, std::string_view session_key) {
  const std::string_view divider("\0", 1);  // which neither can hold
  return mix(absorb(absorb(absorb(kFnvStart, function_id), divider), session_key));
}

Ring::Ring(const std::vector<std::string>& ids) : nodes_(ids.size()) {
  points_.reserve(ids.size() * kPoints);
  for (std::size_t node = 0; node < ids.size(); ++node) {
    const std::uint64_t seed = mix(absorb(kFnvStart, ids[node]));
    for (std::size_t i = 0; i < kPoints; ++i) {
      points_.push_back({mix(seed + i * kGolden), node});
    }
  }
  // Two nodes at one point must be in the same order wherever the ring is made.
  std::sort(points_.begin(), points_.end(), [&](const Point& a, const Point& b) {
    return a.at != b.at ? a.at < b.at : ids[a.node] < ids[b.node];
  });
}

std::optional<std::size_t> Ring::ownerOf(std::uint64_t point) const {
  if (points_.empty()) return std::nullopt;
  const auto next =
      std::lower_bound(points_.begin(), points_.end(), point,
                       [](const Point& one, std::uint64_t at) { return one.at < at; });
  return next != points_.end() ? next->node : points_.front().node;
}

std::vector<double> Ring::shares() const {
  std::vector<double> shares(nodes_, 0.0);
  if (points_.empty()) return shares;
  constexpr double kWhole = 18446744073709551616.0;  // 2^64
  std::uint64_t before = points_.back().at;
  for (const Point& point : points_) {
    shares[point.node] += static_cast<double>(point.at - before) / kWhole;  // wraps around
    before = point.at;
  }
  if (points_.size() == 1) shares[points_.front().node] = 1;
  return shares;
}

}  // namespace nimbus::cluster
