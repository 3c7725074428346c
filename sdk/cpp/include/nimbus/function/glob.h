#pragma once
// Patterns for keys: `*`, `?`, `[a-z]`, and `\` before a character that shall mean itself.
//
// `?` and `[]` match one code point. There is no negation. A `[` that is never closed, and a `\` at
// the end, mean themselves; `[]` matches nothing.

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace nimbus::native {

// The code point at `at`, which moves behind it. The text is known to be UTF-8.
inline char32_t nextPoint(std::string_view text, std::size_t& at) {
  const auto first = static_cast<unsigned char>(text[at++]);
  if (first < 0x80) return first;
  const unsigned more = first >= 0xF0 ? 3 : first >= 0xE0 ? 2 : 1;
  char32_t point = first & (0x3FU >> more);
  for (unsigned i = 0; i < more && at < text.size(); ++i) {
    point = (point << 6U) | (static_cast<unsigned char>(text[at++]) & 0x3FU);
  }
  return point;
}

inline char32_t nextOfSet(std::string_view set, std::size_t& at) {
  if (set[at] == '\\' && at + 1 < set.size()) ++at;
  return nextPoint(set, at);
}

// The place of the `]` of a set whose members begin at `begin`.
inline std::size_t endOfSet(std::string_view pattern, std::size_t begin) {
  for (std::size_t at = begin; at < pattern.size(); ++at) {
    if (pattern[at] == '\\') {
      ++at;
    } else if (pattern[at] == ']') {
      return at;
    }
  }
  return std::string_view::npos;
}

inline bool isInSet(std::string_view set, char32_t point) {
  for (std::size_t at = 0; at < set.size();) {
    const char32_t low = nextOfSet(set, at);
    char32_t high = low;
    if (at + 1 < set.size() && set[at] == '-') {
      ++at;
      high = nextOfSet(set, at);
    }
    if (std::min(low, high) <= point && point <= std::max(low, high)) return true;
  }
  return false;
}

// Whether the element of the pattern at `at`, which moves behind it, fits the code point.
inline bool fits(std::string_view pattern, std::size_t& at, char32_t point) {
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
  return nextPoint(pattern, at) == point;
}

// Both in UTF-8. Only the last star is ever taken back: what an earlier one may take, the last one
// may take too. So no pattern takes more time than its length times that of the text.
inline bool matches(std::string_view pattern, std::string_view text) {
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
      const char32_t point = nextPoint(text, after);
      std::size_t behind = p;
      if (fits(pattern, behind, point)) {
        p = behind;
        t = after;
        continue;
      }
    }
    if (star == std::string_view::npos) return false;
    static_cast<void>(nextPoint(text, star_text));
    p = star;
    t = star_text;
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace nimbus::native
