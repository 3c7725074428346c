#include "gateway/admin_key.h"

#include "base/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <string_view>
#include <system_error>

namespace nimbus::gateway {
namespace {

constexpr std::string_view kPrefix = "nk_";
constexpr std::size_t kRandomCharacters = 50;
constexpr std::size_t kKeyLength = kPrefix.size() + kRandomCharacters;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  explicit operator bool() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

// Errors here are of the machine; what errno says is what whoever starts the server must know.
Error systemError(std::string_view doing, std::string_view path) {
  return {Code::Unavailable,
          fmt::format("{} {}: {}", doing, path, std::generic_category().message(errno))};
}

bool isKey(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdefghijklmnopqrstuvwxyz";
  return text.size() == kKeyLength && text.starts_with(kPrefix) &&
         text.find_first_not_of(kDigits, kPrefix.size()) == text.npos;
}

// Nothing if there is no such file.
Result<std::optional<std::string>> readKey(const std::string& path) {
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file) {
    if (errno == ENOENT) return std::optional<std::string>();
    return systemError("cannot open", path);
  }
  struct stat info {};
  if (::fstat(file.descriptor(), &info) != 0) return systemError("cannot look at", path);
  if ((info.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    log::warn("the administrator key was readable by others; it is private now", {{"file", path}});
    if (::fchmod(file.descriptor(), S_IRUSR | S_IWUSR) != 0) {
      return systemError("cannot make private", path);
    }
  }
  std::array<char, kKeyLength + 2> buffer{};
  const ssize_t got = ::read(file.descriptor(), buffer.data(), buffer.size());
  if (got < 0) return systemError("cannot read", path);
  std::string_view text(buffer.data(), static_cast<std::size_t>(got));
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (!isKey(text)) {
    return Error(Code::InvalidArgument,
                 fmt::format("{} holds no key; remove it and a new one is made", path));
  }
  return std::optional<std::string>(text);
}

Result<> writeWhole(const std::string& path, std::string_view text) {
  const File file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
                         S_IRUSR | S_IWUSR));
  if (!file) return systemError("cannot create", path);
  const bool is_written =
      ::fchmod(file.descriptor(), S_IRUSR | S_IWUSR) == 0 &&  // whatever the umask
      ::write(file.descriptor(), text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
      ::fsync(file.descriptor()) == 0;
  if (!is_written) return systemError("cannot write", path);
  return {};
}

Result<> syncDirectory(const std::string& directory) {
  const File file(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file || ::fsync(file.descriptor()) != 0) return systemError("cannot sync", directory);
  return {};
}

// True if the key is now that of `path`; false if someone else's was there first.
Result<bool> publish(const std::string& path, const std::string& key, Random& random) {
  const std::string draft = fmt::format("{}.{}.tmp", path, random.base36(12));
  const auto written = writeWhole(draft, key + "\n");
  // link, unlike rename, fails if the name is taken: the first of several keys stays.
  const bool is_ours = written && ::link(draft.c_str(), path.c_str()) == 0;
  const bool is_taken = written && !is_ours && errno == EEXIST;
  const std::optional<Error> failure = written && !is_ours && !is_taken
                                           ? std::optional(systemError("cannot create", path))
                                           : std::nullopt;
  ::unlink(draft.c_str());
  if (!written) return written.error();
  if (failure) return *failure;
  return is_ours;
}

}  // namespace

Result<AdminKey> openAdminKey(const std::string& directory, Random& random) {
  AdminKey admin;
  admin.path = directory + "/admin.key";
  NIMBUS_TRY(auto known, readKey(admin.path));
  if (!known) {
    const std::string key = std::string(kPrefix) + random.base36(kRandomCharacters);
    NIMBUS_TRY(admin.is_new, publish(admin.path, key, random));
    NIMBUS_CHECK(syncDirectory(directory));
    NIMBUS_TRY(known, readKey(admin.path));
    if (!known) return Error(Code::Unavailable, admin.path + " was removed while it was read");
  }
  admin.key = *std::move(known);
  return admin;
}

Result<std::optional<AdminKey>> findAdminKey(const std::string& directory) {
  AdminKey admin;
  admin.path = directory + "/admin.key";
  NIMBUS_TRY(auto known, readKey(admin.path));
  if (!known) return std::optional<AdminKey>();
  admin.key = *std::move(known);
  return std::optional(std::move(admin));
}

}  // namespace nimbus::gateway
