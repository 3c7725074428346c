#pragma once
// Writing JSON by hand, for places too hot or too low for a JSON library: log lines and answers'
// heads. Reading JSON is never done by hand.

#include <array>
#include <charconv>
#include <concepts>
#include <string>
#include <string_view>

namespace nimbus {

// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD; control
// characters, C1 included, are escaped, so that the result is safe to show on a terminal.
void appendJsonString(std::string& out, std::string_view text);

// In decimal digits.
template <std::integral Number>
void appendNumber(std::string& out, Number number) {
  std::array<char, 24> digits;  // enough for 64 bits and a sign
  const auto [end, failure] = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  out.append(digits.data(), end);
}

// `text` for a terminal: escaped as in a JSON string, but without quotes around it.
std::string printable(std::string_view text);

}  // namespace nimbus
