#pragma once
// The code of one version of a function: files by path, as they will lie in its directory.
//
// Paths come from strangers and become paths of ours. A Bundle in hand holds only such that stay
// below the directory they are written to, so whoever has one need not look again.

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace nimbus::function {

// InvalidArgument unless `path` is relative, of plain components (none empty, "." or ".."), of
// UTF-8 without control characters and backslashes, and not too long or too deep.
Result<> checkPath(std::string_view path);

class Bundle {
 public:
  static constexpr std::size_t kMaxFiles = 2'000;
  static constexpr std::size_t kMaxBytes = 64UL * 1024 * 1024;  // of all files

  enum class Mode : std::uint8_t { Plain, Executable };

  struct File {
    std::string bytes;
    Mode mode = Mode::Plain;

    bool operator==(const File&) const = default;
  };

  // "./" at the beginning of a path is dropped. What begins like a program ("#!", ELF) is
  // executable whatever `mode` says: JSON and many zip files cannot say it.
  //
  // InvalidArgument for a path that is refused, is there already, or is the folder of another;
  // TooLarge, with field `limit`, for one file or byte too many. Errors name the path; nothing is
  // added then.
  Result<> add(std::string_view path, std::string bytes, Mode mode);

  const std::map<std::string, File, std::less<>>& files() const { return files_; }
  // Of all files.
  std::size_t bytes() const { return bytes_; }

  // SHA-256 of all paths, modes and bytes, in hexadecimal: equal only for equal code.
  std::string hash() const;

  // For the store. decode() trusts nothing: what it answers went through add().
  std::string encode() const;
  static Result<Bundle> decode(std::string_view encoded);

  // Puts the files into `directory`, which they then fill alone; folders above it are made. If it
  // is there already it is taken to be right. It appears whole or not at all, also when several
  // processes do this at once; after a crash a folder ".NAME.XXXXXX" may lie beside it. Nothing is
  // synced: the store has the code. Blocks.
  Result<> writeTo(const std::filesystem::path& directory) const;

  bool operator==(const Bundle&) const = default;

 private:
  std::map<std::string, File, std::less<>> files_;
  std::size_t bytes_ = 0;
};

}  // namespace nimbus::function
