#pragma once
// "Did you mean …?"

#include <cstddef>
#include <limits>
#include <string_view>

namespace nimbus {

// How many single-character edits make one of the other. Takes |a| * |b| steps: for names, not for
// text.
std::size_t editDistance(std::string_view a, std::string_view b);

// The candidate most like `wanted`; the first of several that are equally like it, and empty if
// there is no candidate. `distance(candidate)` says how unlike they are.
template <typename Candidates, typename Distance>
std::string_view nearest(const Candidates& candidates, Distance distance) {
  std::string_view best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (const std::string_view candidate : candidates) {
    const std::size_t here = distance(candidate);
    if (here >= least) continue;
    best = candidate;
    least = here;
  }
  return best;
}

}  // namespace nimbus
