#pragma once

#include "base/result.h"

#include <string>

namespace nimbus::server {

// Makes the directory, with mode 0700, if it is not there, and sees that it can be written. One
// that is there keeps its mode. Parents are made as `mkdir -p` makes them.
Result<> openDataDirectory(const std::string& path);

// The folder in it where the code of functions is unpacked, made if it is not there: its absolute
// path.
Result<std::string> openCodeDirectory(const std::string& data);

}  // namespace nimbus::server
