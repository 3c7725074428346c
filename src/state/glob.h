#pragma once

#include <string_view>

namespace nimbus::state {

// Whether `text` fits the pattern of keys(): `*` any text, `?` one code point, `[a-z0-9]` one of
// them, `\` takes the next one as it is. There is no negation; a `[` without its `]` is itself.
// Both are UTF-8.
bool matches(std::string_view pattern, std::string_view text);

}  // namespace nimbus::state
