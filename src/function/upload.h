#pragma once
// The code in a body of `PUT /api/v1/functions/{id}`.

#include "base/result.h"
#include "function/bundle.h"

#include <optional>
#include <string_view>

namespace nimbus::function {

// From `files` (path → text) or `archive_base64`; nothing if there is neither. The rest of the body
// is for update() in definition.h. Blocks as unpack() does.
//
// InvalidJson; InvalidArgument and TooLarge, which name the file.
Result<std::optional<Bundle>> readCode(std::string_view body);

}  // namespace nimbus::function
