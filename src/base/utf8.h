#pragma once

#include <cstddef>
#include <string_view>

namespace nimbus::utf8 {

// Length in bytes of the code point `text` begins with; 0 if it begins with none: a stray or
// missing continuation byte, an overlong form, a surrogate, or a value past U+10FFFF.
std::size_t sequenceLength(std::string_view text);

bool isValid(std::string_view text);

}  // namespace nimbus::utf8
