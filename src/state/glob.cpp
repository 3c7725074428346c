#include "state/glob.h"

#include <cstddef>
#include <cstdint>

namespace nimbus::state {
namespace {

// The code point at `at`, which moves behind it. The text is known to be UTF-8.
char32_t next(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const int more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  char32_t point = first & (0x3FU >> static_cast<unsigned>(more));
  for (int i = 0; i < more && at < text.size(); ++i) {
    point = (point << 6U) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  }
  return point;
}

char32_t nextOfSet(std::string_view set, std::size_t& at) {
  if (set[at] == '\\' && at + 1 < set.size()) ++at;
  return next(set, at);
}

// The end of the set that begins behind a '[': the place of its ']'.
std::size_t endOfSet(std::string_view pattern, std::size_t begin) {
  for (std::size_t at = begin; at < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      ++at;
    } else if (pattern[at] == ']') {
      return at;
    }
  }
  return std::string_view::npos;
}

bool isInSet(std::string_view set, char32_t point) {
  for (std::size_t at = 0; at < set.size();) {
    const char32_t low = nextOfSet(set, at);
    if (at + 1 < set.size() && set[at] == '-') {
      ++at;
      const char32_t high = nextOfSet(set, at);
      if (low <= point && point <= high) return true;
    } else if (low == point) {
      return true;
    }
  }
  return false;
}

// Whether the element of the pattern at `at`, which moves behind it, fits the code point.
bool fits(std::string_view pattern, std::size_t& at, char32_t point) {
  if (pattern[at] == '?') {
    ++at;
    return true;
  }
  if (pattern[at] == '[') {
    if (const std::size_t end = endOfSet(pattern, at + 1); end != std::string_view::npos) {
      const std::string_view set = pattern.substr(at + 1, end - at - 1);
      at = end + 1;
      return isInSet(set, point);
    }
  }
  if (pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
  return next(pattern, at) == point;
}

}  // namespace

// Only the last star is ever taken back: what an earlier one may take, the last one may take too.
bool matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0;
  std::size_t t = 0;
  std::size_t star = std::string_view::npos;  // behind it in the pattern
  std::size_t star_text = 0;                  // where what it takes ends
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = ++p;
      star_text = t;
      continue;
    }
    if (p < pattern.size()) {
      std::size_t after = t;
      const char32_t point = next(text, after);
      std::size_t behind = p;
      if (fits(pattern, behind, point)) {
        p = behind;
        t = after;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    static_cast<void>(next(text, star_text));
    p = star;
    t = star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace nimbus::state
