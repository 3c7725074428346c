#pragma once
// Numbers and strings in a blob: 8 bytes big-endian, and a length followed by that many bytes.

#include "base/assert.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::store::sqlite {

inline void appendNumber(std::string& out, std::uint64_t number) {
  for (int shift = 56; shift >= 0; shift -= 8) {
    out += static_cast<char>((number >> static_cast<unsigned>(shift)) & 0xFFU);
  }
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

  std::uint64_t takeNumber() {
    std::uint64_t number = 0;
    for (const char c : take(8)) number = (number << 8U) | static_cast<unsigned char>(c);
    return number;
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
