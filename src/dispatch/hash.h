#pragma once
// Hashing of names. Names come from outside, so the seed is random per dispatcher.

#include <cstdint>
#include <cstring>
#include <string_view>

namespace nimbus::dispatch {

// Spreads every input bit over all output bits: the two halves of a product, folded.
inline std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

inline std::uint64_t hashOf(std::string_view text, std::uint64_t seed) {
  constexpr std::uint64_t kOdd1 = 0x9E3779B97F4A7C15U;  // 2^64 divided by the golden ratio
  constexpr std::uint64_t kOdd2 = 0xD1B54A32D192ED03U;  // likewise, in three dimensions
  std::uint64_t hash = seed ^ mix(text.size() ^ kOdd2, kOdd1);
  while (text.size() >= 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, text.data(), 8);
    hash = mix(hash ^ word, kOdd1);
    text.remove_prefix(8);
  }
  std::uint64_t rest = 0;
  if (!text.empty()) std::memcpy(&rest, text.data(), text.size());
  // One product leaves short names that differ in a digit at regular distances; two do not.
  return mix(mix(hash ^ rest, kOdd1) ^ kOdd1, kOdd2 ^ seed);
}

}  // namespace nimbus::dispatch
