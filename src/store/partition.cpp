#include "store/partition.h"

#include "base/assert.h"

#include <algorithm>

namespace nimbus::store {
namespace {

constexpr std::string_view kSpecial = "%:/\\{}*?[]";

bool isPlain(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte > 0x20 && byte != 0x7f && kSpecial.find(c) == std::string_view::npos;
}

void appendPart(std::string& out, std::string_view part) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  for (const char c : part) {
    if (isPlain(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4U];
    out += kHex[byte & 0xFU];
  }
}

bool isKindCharacter(char c) {
  return (c >= 'a' && c <= 'z') || c == '-';
}

}  // namespace

std::string encodePart(std::string_view part) {
  std::string out;
  out.reserve(part.size());
  appendPart(out, part);
  return out;
}

Partition::Partition(std::string_view kind, std::initializer_list<std::string_view> parts) {
  NIMBUS_ASSERT(!kind.empty() && std::all_of(kind.begin(), kind.end(), isKindCharacter),
                "a partition's kind is a word of ours");
  std::size_t length = kind.size();
  for (const std::string_view part : parts) length += part.size() + 1;
  name_.reserve(length);
  name_ = kind;
  for (const std::string_view part : parts) {
    name_ += ':';
    appendPart(name_, part);
  }
}

}  // namespace nimbus::store
