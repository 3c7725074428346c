#pragma once
// Where a database may live.

#include "base/result.h"

#include <filesystem>
#include <string>
#include <string_view>

namespace nimbus::store::sqlite {

// The type of the file system that holds `path` ("ext4", "nfs4"), by the text of
// /proc/self/mountinfo. Empty if no mount point covers it.
std::string fileSystemOf(const std::filesystem::path& path, std::string_view mountinfo);

// WAL needs memory shared by all users of the file, which no network file system gives them.
bool isNetworkFileSystem(std::string_view type);

// InvalidArgument if `directory` lies on a network file system.
Result<> checkLocal(const std::filesystem::path& directory);

}  // namespace nimbus::store::sqlite
