#include "cli/watcher.h"

#include <poll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// A file that is only created is not complete yet: it is closed later.
constexpr std::uint32_t kEvents = IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM |
                                  IN_MOVED_TO | IN_ONLYDIR | IN_EXCL_UNLINK;

bool isLeftOut(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames = {".git", "node_modules", "__pycache__",
                                                      ".nimbus", "4913"};  // the last is vim's
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end() || name.ends_with('~') ||
         name.ends_with(".swp") || name.ends_with(".swx") || name.starts_with(".#");
}

}  // namespace

Result<Watcher> Watcher::open(const fs::path& directory) {
  const int inotify = ::inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
  if (inotify < 0) {
    return Error(Code::Unavailable,
                 "changes cannot be watched: " + std::generic_category().message(errno));
  }
  Watcher watcher(inotify);
  watcher.add(directory);
  if (watcher.directories_.empty()) {
    return Error(Code::Unavailable, directory.string() + " cannot be watched: " +
                                        std::generic_category().message(errno));
  }
  return watcher;
}

Watcher::Watcher(Watcher&& other) noexcept
    : inotify_(std::exchange(other.inotify_, -1)), directories_(std::move(other.directories_)) {}

Watcher::~Watcher() {
  if (inotify_ >= 0) ::close(inotify_);
}

void Watcher::add(const fs::path& directory) {
  const int watch = ::inotify_add_watch(inotify_, directory.c_str(), kEvents);
  if (watch < 0) return;
  directories_[watch] = directory;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    const bool is_own = entry.is_directory(ignored) && !entry.is_symlink(ignored);
    if (is_own && !isLeftOut(entry.path().filename().string())) add(entry.path());
  }
}

void Watcher::read(std::set<fs::path>& changed) {
  alignas(inotify_event) std::array<char, 16UL * 1024> buffer;
  while (true) {
    const ssize_t length = ::read(inotify_, buffer.data(), buffer.size());
    if (length <= 0) return;
    std::size_t at = 0;
    while (at + sizeof(inotify_event) <= static_cast<std::size_t>(length)) {
      inotify_event event{};
      std::memcpy(&event, buffer.data() + at, sizeof(event));
      const std::string_view name = event.len > 0 ? buffer.data() + at + sizeof(event) : "";
      at += sizeof(event) + event.len;
      const auto directory = directories_.find(event.wd);
      if (directory == directories_.end()) continue;
      if ((event.mask & IN_IGNORED) != 0) {
        directories_.erase(directory);
        continue;
      }
      if (isLeftOut(name)) continue;
      const fs::path path = directory->second / name;
      const bool is_directory = (event.mask & IN_ISDIR) != 0;
      if (is_directory && (event.mask & (IN_CREATE | IN_MOVED_TO)) != 0) add(path);
      if (is_directory || (event.mask & IN_CREATE) == 0) changed.insert(path);
    }
  }
}

std::set<fs::path> Watcher::changes(Millis quiet, Millis most) {
  std::set<fs::path> changed;
  read(changed);
  const auto deadline = Clock::now() + most;
  while (!changed.empty() && Clock::now() < deadline) {
    pollfd waiting{inotify_, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(quiet.count())) <= 0) break;
    read(changed);
  }
  return changed;
}

}  // namespace nimbus::cli
