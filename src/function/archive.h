#pragma once
// Reading archives of strangers.

#include "base/result.h"
#include "function/bundle.h"

#include <string_view>

namespace nimbus::function {

// The files in a tar, tar.gz or zip archive. Folders in it are passed over, and no folder is taken
// off the paths.
//
// InvalidArgument if it is no such archive, is damaged, or holds what a bundle cannot: links,
// devices, encrypted files, paths that lead elsewhere. TooLarge as soon as more than a bundle may
// hold has come out. Errors name the entry. Blocks, for about as long as 64 MiB take to unpack.
Result<Bundle> unpack(std::string_view archive);

}  // namespace nimbus::function
