#pragma once
// Where a key lives in a Redis Cluster.

#include <cstdint>
#include <string_view>

namespace nimbus::redis {

inline constexpr std::uint16_t kSlots = 16384;

// CRC16 (XMODEM) of the key's hash tag: what stands between its first '{' and the next '}', if that
// is not empty; else of the whole key.
std::uint16_t slotOf(std::string_view key);

}  // namespace nimbus::redis
