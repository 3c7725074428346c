#pragma once
// Numbers and strings in a blob: 8 bytes big-endian, and a length followed by that many bytes.

#include "base/assert.h"

#include <endian.h>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::store::sqlite {

inline void appendNumber(std::string& out, std::uint64_t number) {
  const std::uint64_t big_endian = ::htobe64(number);
  out.append(std::bit_cast<std::array<char, 8>>(big_endian).data(), 8);
}

inline void appendString(std::string& out, std::string_view text) {
  appendNumber(out, text.size());
  out += text;
}

// Takes apart what the functions above put together.
class Bytes {
 public:
  explicit Bytes(std::string_view bytes) : rest_(bytes) {}

  bool empty() const { return rest_.empty(); }

  char takeByte() { return take(1).front(); }

  std::uint64_t takeNumber() {
    std::array<char, 8> bytes{};
    take(8).copy(bytes.data(), 8);
    return ::be64toh(std::bit_cast<std::uint64_t>(bytes));
  }
  std::string_view takeString() { return take(takeNumber()); }

 private:
  std::string_view take(std::uint64_t count) {
    NIMBUS_ASSERT(count <= rest_.size(), "a blob of ours is shorter than it says");
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  std::string_view rest_;
};

}  // namespace nimbus::store::sqlite
