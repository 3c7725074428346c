#include "redis/slot.h"

#include <array>

namespace nimbus::redis {
namespace {

constexpr std::array<std::uint16_t, 256> makeTable() {
  std::array<std::uint16_t, 256> table{};
  for (unsigned int byte = 0; byte < 256; ++byte) {
    unsigned int crc = byte << 8U;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 0x8000U) != 0 ? (crc << 1U) ^ 0x1021U : crc << 1U;
    }
    table.at(byte) = static_cast<std::uint16_t>(crc);
  }
  return table;
}

constexpr auto kTable = makeTable();

std::string_view tagOf(std::string_view key) {
  const std::size_t open = key.find('{');
  if (open == key.npos) return key;
  const std::size_t close = key.find('}', open + 1);
  if (close == key.npos || close == open + 1) return key;
  return key.substr(open + 1, close - open - 1);
}

}  // namespace

std::uint16_t slotOf(std::string_view key) {
  unsigned int crc = 0;
  for (const char byte : tagOf(key)) {
    crc = (crc << 8U) ^ kTable.at(((crc >> 8U) ^ static_cast<unsigned char>(byte)) & 0xFFU);
  }
  return static_cast<std::uint16_t>(crc & (kSlots - 1U));
}

}  // namespace nimbus::redis
