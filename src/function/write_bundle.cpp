#include "function/bundle.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <system_error>

namespace nimbus::function {
namespace {

namespace fs = std::filesystem;

// Whatever the process's umask is: an instance may run as another user.
constexpr ::mode_t kFolder = 0755;
constexpr ::mode_t kPlain = 0644;
constexpr ::mode_t kExecutable = 0755;

Error failed(std::string_view what, const fs::path& path, int error) {
  const bool full = error == ENOSPC || error == EDQUOT;
  return {full ? Code::InsufficientStorage : Code::Unavailable,
          fmt::format("{} {}: {}", what, path.string(), std::generic_category().message(error))};
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  int number() const { return number_; }

 private:
  int number_;
};

// A folder that is gone when this is destroyed, unless it was moved to its place.
class Draft {
 public:
  static Result<Draft> beside(const fs::path& target) {
    std::error_code error;
    fs::create_directories(target.parent_path(), error);
    if (error) return failed("making", target.parent_path(), error.value());
    std::string pattern =
        (target.parent_path() / ("." + target.filename().string() + ".XXXXXX")).string();
    if (::mkdtemp(pattern.data()) == nullptr) return failed("making", pattern, errno);
    Draft draft{fs::path(pattern)};
    if (::chmod(pattern.c_str(), kFolder) != 0) return failed("making", pattern, errno);
    return draft;
  }

  Draft(Draft&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;
  Draft& operator=(Draft&&) = delete;
  ~Draft() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }

  const fs::path& path() const { return path_; }

  Result<> moveTo(const fs::path& target) {
    if (std::rename(path_.c_str(), target.c_str()) == 0) {
      path_.clear();
      return {};
    }
    const int error = errno;
    // Somebody else was quicker, with the same files.
    std::error_code ignored;
    if ((error == EEXIST || error == ENOTEMPTY) && fs::is_directory(target, ignored)) return {};
    return failed("moving the code to", target, error);
  }

 private:
  explicit Draft(fs::path path) : path_(std::move(path)) {}

  fs::path path_;
};

Result<> makeFolders(const fs::path& root, const fs::path& relative) {
  fs::path folder = root;
  for (const fs::path& component : relative) {
    folder /= component;
    if (::mkdir(folder.c_str(), kFolder) == 0) {
      if (::chmod(folder.c_str(), kFolder) != 0) return failed("making", folder, errno);
    } else if (errno != EEXIST) {
      return failed("making", folder, errno);
    }
  }
  return {};
}

Result<> writeFile(const fs::path& path, const Bundle::File& file) {
  const ::mode_t mode = file.mode == Bundle::Mode::Executable ? kExecutable : kPlain;
  const Descriptor out(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
  if (out.number() < 0 || ::fchmod(out.number(), mode) != 0) return failed("making", path, errno);
  std::string_view rest = file.bytes;
  while (!rest.empty()) {
    const ::ssize_t written = ::write(out.number(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return failed("writing", path, errno);
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

}  // namespace

Result<> Bundle::writeTo(const fs::path& directory) const {
  std::error_code ignored;
  if (fs::is_directory(directory, ignored)) return {};
  NIMBUS_TRY(Draft draft, Draft::beside(directory));
  for (const auto& [path, file] : files_) {
    const fs::path relative(path);
    NIMBUS_CHECK(makeFolders(draft.path(), relative.parent_path()));
    NIMBUS_CHECK(writeFile(draft.path() / relative, file));
  }
  return draft.moveTo(directory);
}

}  // namespace nimbus::function
