#pragma once
// Text on a terminal: what it may hold, and how many columns it takes.

#include <cstddef>
#include <string>
#include <string_view>

namespace nimbus::cli {

// As it is, but for what a terminal would obey or could not show: that is escaped.
std::string shownText(std::string_view text);

// Of valid UTF-8: marks that combine take none, East Asian letters and most pictures two.
std::size_t textWidth(std::string_view text);

// At most `width` columns of it; where something is cut off, the last one is "…".
std::string cutToWidth(std::string_view text, std::size_t width);

}  // namespace nimbus::cli
