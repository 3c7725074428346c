#include "runtime/cell_memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

namespace nimbus::runtime {
namespace {

std::string readAt(int folder, const std::string& path) {
  const int file = ::openat(folder, path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  std::array<char, 2048> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Resident: quick to tell, but pages that several share count for each.
std::uint64_t residentOf(int processes, const std::string& process) {
  const std::string text = readAt(processes, process + "/statm");
  const std::size_t second = text.find(' ');
  if (second == std::string::npos) return 0;
  return std::strtoull(text.c_str() + second, nullptr, 10) *
         static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// A fair share of each page.
std::optional<std::uint64_t> shareOf(int processes, const std::string& process) {
  const std::string text = readAt(processes, process + "/smaps_rollup");
  constexpr std::string_view kName = "\nPss:";
  const std::size_t at = text.find(kName);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(text.c_str() + at + kName.size(), nullptr, 10) * 1024;
}

template <typename Measure>
std::uint64_t sum(int processes, Measure measure) {
  const int copy = ::openat(processes, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* const folder = ::fdopendir(copy);
  if (folder == nullptr) return 0;
  std::uint64_t total = 0;
  while (const dirent* const entry = ::readdir(folder)) {
    const std::string name = entry->d_name;
    const bool is_process = name[0] >= '1' && name[0] <= '9' && name != "1";
    if (is_process) total += measure(name);
  }
  ::closedir(folder);
  return total;
}

}  // namespace

int openProcesses() {
  const int system = ::fsopen("proc", FSOPEN_CLOEXEC);
  if (system < 0) return -1;
  int processes = -1;
  if (::fsconfig(system, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) == 0) {
    processes = ::fsmount(system, FSMOUNT_CLOEXEC,
                          MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC);
  }
  ::close(system);
  return processes;
}

std::uint64_t memoryOfAll(int processes, std::uint64_t limit) {
  const std::uint64_t resident =
      sum(processes, [&](const std::string& one) { return residentOf(processes, one); });
  if (resident <= limit) return resident;
  return sum(processes, [&](const std::string& one) {
    const auto share = shareOf(processes, one);
    return share ? *share : residentOf(processes, one);
  });
}

}  // namespace nimbus::runtime
