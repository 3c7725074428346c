#include "cli/text_width.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace nimbus::cli {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};

// The blocks of Unicode that matter to people's names for things; not every single letter.
constexpr std::array<Range, 10> kZero = {{{0x0300, 0x036F},
                                          {0x0483, 0x0489},
                                          {0x0591, 0x05BD},
                                          {0x064B, 0x065F},
                                          {0x1AB0, 0x1AFF},
                                          {0x1DC0, 0x1DFF},
                                          {0x200B, 0x200F},
                                          {0x20D0, 0x20FF},
                                          {0xFE00, 0xFE0F},
                                          {0xFE20, 0xFE2F}}};
constexpr std::array<Range, 9> kDouble = {{{0x1100, 0x115F},
                                           {0x2E80, 0x303E},
                                           {0x3041, 0xA4CF},
                                           {0xAC00, 0xD7A3},
                                           {0xF900, 0xFAFF},
                                           {0xFE30, 0xFE6F},
                                           {0xFF00, 0xFF60},
                                           {0x1F300, 0x1FAFF},
                                           {0x20000, 0x3FFFD}}};

template <typename Ranges>
bool isIn(const Ranges& ranges, char32_t letter) {
  return std::any_of(ranges.begin(), ranges.end(), [letter](const Range& range) {
    return letter >= range.first && letter <= range.last;
  });
}

char32_t decode(std::string_view sequence) {
  constexpr std::array<unsigned, 5> kFirstBits = {0, 0x7F, 0x1F, 0x0F, 0x07};
  char32_t letter = static_cast<unsigned char>(sequence.front()) & kFirstBits.at(sequence.size());
  for (const char c : sequence.substr(1)) {
    letter = (letter << 6U) | (static_cast<unsigned char>(c) & 0x3FU);
  }
  return letter;
}

std::size_t widthOf(std::string_view sequence) {
  const char32_t letter = decode(sequence);
  if (isIn(kZero, letter)) return 0;
  return isIn(kDouble, letter) ? 2 : 1;
}

bool isControl(char32_t letter) {
  return letter < 0x20 || (letter >= 0x7F && letter < 0xA0);
}

}  // namespace

std::string shownText(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    const std::size_t length = utf8::sequenceLength(text);
    const std::string_view letter = text.substr(0, std::max<std::size_t>(1, length));
    if (length == 0) {
      shown += "\uFFFD";
    } else if (letter != "\t" && isControl(decode(letter))) {
      shown += fmt::format("\\x{:02x}", static_cast<unsigned>(decode(letter)));
    } else {
      shown += letter;
    }
    text.remove_prefix(letter.size());
  }
  return shown;
}

std::size_t textWidth(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8::sequenceLength(text));
    width += widthOf(text.substr(0, length));
    text.remove_prefix(length);
  }
  return width;
}

std::string cutToWidth(std::string_view text, std::size_t width) {
  if (textWidth(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::string kept;
  std::size_t used = 0;
  while (!text.empty()) {
    const std::size_t length = std::max<std::size_t>(1, utf8::sequenceLength(text));
    const std::size_t here = widthOf(text.substr(0, length));
    if (used + here > width - 1) break;
    kept += text.substr(0, length);
    used += here;
    text.remove_prefix(length);
  }
  return kept + "…";
}

}  // namespace nimbus::cli
