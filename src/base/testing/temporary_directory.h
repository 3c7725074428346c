#pragma once

#include "base/assert.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace nimbus {

// An empty directory that is gone, with all that is in it, when this is destroyed.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::string pattern = (std::filesystem::temp_directory_path() / "nimbus.XXXXXX").string();
    NIMBUS_ASSERT(::mkdtemp(pattern.data()) != nullptr, "the temporary directory is writable");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace nimbus
