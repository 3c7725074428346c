#pragma once
// Small questions about characters and text that several parts of HTTP ask.

#include <algorithm>
#include <string_view>

namespace nimbus::http {

inline char lowerCase(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c;
}

// ASCII only, as HTTP compares its names.
inline bool equalIgnoringCase(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return lowerCase(x) == lowerCase(y);
         });
}

inline bool isDigit(char c) {
  return c >= '0' && c <= '9';
}

// The value of a hexadecimal digit; -1 if it is none.
inline int hexValue(char c) {
  if (isDigit(c)) return c - '0';
  const char lower = lowerCase(c);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

// tchar of RFC 9110: what methods and field names are made of.
inline bool isTokenCharacter(char c) {
  const char lower = lowerCase(c);
  return (lower >= 'a' && lower <= 'z') || isDigit(c) ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

}  // namespace nimbus::http
