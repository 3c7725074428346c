#pragma once
// Percent-decoding of paths and queries.

#include "base/result.h"

#include <string>
#include <string_view>

namespace nimbus::http {

enum class Plus { Literal, Space };

// Appends `text`, decoded, to `out`. Refuses with InvalidArgument what is no encoding (`%zz`, a cut
// `%4`), `%00`, and text that is not UTF-8 when decoded: no later check would then see what a store
// or a log sees. On an error `out` holds a part of it.
Result<> percentDecode(std::string_view text, Plus plus, std::string& out);

// `text` as one path segment or query value: everything but unreserved characters is encoded.
std::string percentEncode(std::string_view text);

}  // namespace nimbus::http
