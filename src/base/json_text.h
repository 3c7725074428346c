#pragma once
// Writing JSON by hand, for places too hot or too low for a JSON library: log lines and answers'
// heads. Reading JSON is never done by hand.

#include <string>
#include <string_view>

namespace nimbus {

// Appends `text` as a JSON string, quotes included. Bytes that are not UTF-8 become U+FFFD; control
// characters, C1 included, are escaped, so that the result is safe to show on a terminal.
void appendJsonString(std::string& out, std::string_view text);

// `text` for a terminal: escaped as in a JSON string, but without quotes around it.
std::string printable(std::string_view text);

}  // namespace nimbus
