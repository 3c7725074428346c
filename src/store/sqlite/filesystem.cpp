#include "store/sqlite/filesystem.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <sstream>
#include <vector>

namespace nimbus::store::sqlite {
namespace {

// Mount points are written with \040 for a space, \134 for a backslash, and so on.
std::string unescape(std::string_view text) {
  const auto isOctal = [](char c) { return c >= '0' && c <= '7'; };
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool escaped = text[i] == '\\' && i + 3 < text.size() && isOctal(text[i + 1]) &&
                         isOctal(text[i + 2]) && isOctal(text[i + 3]);
    if (!escaped) {
      out += text[i];
      continue;
    }
    out +=
        static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + text[i + 3] - '0');
    i += 3;
  }
  return out;
}

bool covers(const std::filesystem::path& mount_point, const std::filesystem::path& path) {
  return std::mismatch(mount_point.begin(), mount_point.end(), path.begin(), path.end()).first ==
         mount_point.end();
}

}  // namespace

std::string fileSystemOf(const std::filesystem::path& path, std::string_view mountinfo) {
  std::istringstream lines{std::string(mountinfo)};
  std::string type;
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    const std::vector<std::string> fields{std::istream_iterator<std::string>(words), {}};
    // "36 35 98:0 /root /mnt rw,noatime master:1 - ext4 /dev/sda1 rw": optional fields end at "-".
    const auto dash = std::find(fields.begin(), fields.end(), "-");
    if (fields.size() < 5 || std::distance(dash, fields.end()) < 2) continue;
    const std::string mount_point = unescape(fields[4]);
    // Of equal mount points the later one hides the earlier.
    if (mount_point.size() < longest || !covers(mount_point, path)) continue;
    longest = mount_point.size();
    type = *std::next(dash);
  }
  return type;
}

bool isNetworkFileSystem(std::string_view type) {
  static constexpr std::array<std::string_view, 14> kNetwork = {
      "nfs", "nfs4", "cifs",   "smb3", "smbfs", "9p",       "ceph",
      "afs", "coda", "lustre", "gfs2", "ocfs2", "orangefs", "glusterfs"};
  // Of the many file systems behind FUSE only these are known to sit on a local disk.
  static constexpr std::array<std::string_view, 2> kLocalFuse = {"fuse.fuse-overlayfs", "fuseblk"};
  if (std::find(kNetwork.begin(), kNetwork.end(), type) != kNetwork.end()) return true;
  return type.starts_with("fuse") &&
         std::find(kLocalFuse.begin(), kLocalFuse.end(), type) == kLocalFuse.end();
}

Result<> checkLocal(const std::filesystem::path& directory) {
  std::ifstream file("/proc/self/mountinfo");
  const std::string mountinfo{std::istreambuf_iterator<char>(file), {}};
  std::error_code failure;
  const auto path = std::filesystem::canonical(directory, failure);
  if (failure) {
    return Error(Code::InvalidArgument, fmt::format("the data directory {} cannot be read: {}",
                                                    directory.string(), failure.message()));
  }
  const std::string type = fileSystemOf(path, mountinfo);
  if (!isNetworkFileSystem(type)) return {};
  return Error(Code::InvalidArgument,
               fmt::format("the data directory {} is on a network file system ({}), where SQLite "
                           "loses data; use a local disk, or a Redis store for several machines",
                           path.string(), type));
}

}  // namespace nimbus::store::sqlite
