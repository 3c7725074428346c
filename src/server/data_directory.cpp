#include "server/data_directory.h"

#include "base/json_text.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>

namespace nimbus::server {

Result<> openDataDirectory(const std::string& path) {
  const auto failed = [&](const std::error_code& why, std::string_view hint) {
    return Error(Code::Unavailable,
                 fmt::format("data directory {}: {}; {}", printable(path), why.message(), hint));
  };
  const auto last = [] { return std::error_code(errno, std::generic_category()); };

  std::error_code failure;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, failure);
  if (failure) return failed(failure, "choose another with --data");
  if (::mkdir(path.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return failed(last(), "choose another with --data");
  }
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return failed(last(), "choose another with --data");
  if (!S_ISDIR(info.st_mode)) {
    return failed(std::make_error_code(std::errc::not_a_directory), "choose another with --data");
  }
  if (::faccessat(AT_FDCWD, path.c_str(), R_OK | W_OK | X_OK, AT_EACCESS) != 0) {
    return failed(last(), "the server must be able to write there");
  }
  return {};
}

Result<std::string> openCodeDirectory(const std::string& data) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::absolute(data, failed) / "code";
  if (!failed) std::filesystem::create_directories(path, failed);
  if (failed) {
    return Error(Code::Unavailable,
                 fmt::format("{}: {}", printable(path.string()), failed.message()));
  }
  return path.string();
}

}  // namespace nimbus::server
