#pragma once
// The other way round: code that is here, as a body of `PUT /api/v1/functions/{id}` carries it.

#include "base/result.h"
#include "function/bundle.h"

#include <string>

namespace nimbus::function {

// A tar archive in base64, from which readCode() makes the same bundle again, modes included.
Result<std::string> packBase64(const Bundle& bundle);

}  // namespace nimbus::function
