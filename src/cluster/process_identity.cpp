#include "cluster/process_identity.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <climits>
#include <csignal>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

namespace nimbus::cluster {
namespace {

std::string readText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string machineName() {
  std::string boot = readText("/proc/sys/kernel/random/boot_id");
  while (!boot.empty() && boot.back() == '\n') boot.pop_back();
  std::string name(64, '\0');
  const auto length = ::readlink("/proc/self/ns/pid", name.data(), name.size());
  if (boot.empty() || length <= 0) return "";
  name.resize(static_cast<std::size_t>(length));
  return fmt::format("{}/{}", boot, name);
}

struct Status {
  char state = '?';
  std::uint64_t start = 0;
};

// Of /proc/<pid>/stat. The name in it is in brackets and may hold anything.
std::optional<Status> statusOf(std::int64_t pid) {
  const std::string text = readText(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return std::nullopt;
  std::string_view rest = std::string_view(text).substr(name_end + 2);
  Status status;
  status.state = rest.front();
  constexpr int kStart = 22;  // the first behind the name is the third
  for (int field = 3; field < kStart; ++field) {
    const std::size_t space = rest.find(' ');
    if (space == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(space + 1);
  }
  const auto [end, failed] = std::from_chars(rest.data(), rest.data() + rest.size(), status.start);
  if (failed != std::errc()) return std::nullopt;
  return status;
}

}  // namespace

ProcessIdentity ProcessIdentity::own() {
  ProcessIdentity own;
  own.machine = machineName();
  own.pid = ::getpid();
  const auto status = statusOf(own.pid);
  if (!status) own.machine.clear();
  own.start = status ? status->start : 0;
  return own;
}

bool isGone(const ProcessIdentity& process) {
  static const std::string here = machineName();
  if (here.empty() || process.machine != here || process.pid <= 0 || process.pid > INT_MAX) {
    return false;
  }
  // Not by /proc alone: it may hide the processes of others.
  if (::kill(static_cast<pid_t>(process.pid), 0) != 0 && errno == ESRCH) return true;
  const auto status = statusOf(process.pid);
  if (!status) return false;
  return status->start != process.start || status->state == 'Z' || status->state == 'X';
}

}  // namespace nimbus::cluster
