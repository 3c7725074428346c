#include "cli/machine.h"

#include "base/json_text.h"
#include "client/url.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;
namespace asio = boost::asio;
using tcp = asio::ip::tcp;
using Verdict = Finding::Verdict;

// ---- Programs

std::optional<std::string> pathOf(std::string_view program) {
  const char* const path = std::getenv("PATH");
  std::istringstream places(path == nullptr ? "/usr/bin:/bin" : path);
  std::string place;
  while (std::getline(places, place, ':')) {
    std::string candidate = place + "/" + std::string(program);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return std::nullopt;
}

// The first line it prints when it is asked for its version.
std::string versionOf(const std::string& program) {
  const std::string command = "'" + program + "' --version 2>&1";
  std::FILE* const output = ::popen(command.c_str(), "re");
  if (output == nullptr) return {};
  std::array<char, 256> line{};
  const bool has_line = std::fgets(line.data(), line.size(), output) != nullptr;
  ::pclose(output);
  std::string text = has_line ? line.data() : "";
  while (text.ends_with('\n')) text.pop_back();
  return printable(text);
}

Finding programFinding(std::initializer_list<std::string_view> names, std::string_view purpose,
                       std::string_view package) {
  for (const std::string_view name : names) {
    const auto path = pathOf(name);
    if (path) return {Verdict::Good, fmt::format("{}: {}, {}", purpose, *path, versionOf(*path))};
  }
  return {Verdict::Missing, fmt::format("{}: there is no {}", purpose, *names.begin()),
          fmt::format("apt-get install {}", package)};
}

// ---- Isolation

Finding namespaceFinding() {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET) == 0 ? 0 : 1);
  }
  int status = 0;
  const bool may = child > 0 && ::waitpid(child, &status, 0) == child && WIFEXITED(status) &&
                   WEXITSTATUS(status) == 0;
  if (may) return {Verdict::Good, "isolation: namespaces of users, mounts, processes and network"};
  return {Verdict::Missing, "isolation: this kernel does not let us make namespaces",
          "functions run as plain processes; sysctl kernel.unprivileged_userns_clone=1, or a "
          "container with more rights, changes that"};
}

Finding filesFinding() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  constexpr rlim_t kEnough = 10'064;
  if (limit.rlim_max >= kEnough) {
    return {Verdict::Good, fmt::format("open files: up to {}", limit.rlim_max)};
  }
  return {Verdict::Missing, fmt::format("open files: only {}", limit.rlim_max),
          "ulimit -n, or LimitNOFILE= of the service: each connection is one"};
}

// ---- Data

fs::path nearestThatExists(fs::path path) {
  std::error_code ignored;
  path = fs::absolute(path, ignored);
  while (!fs::exists(path, ignored) && path.has_relative_path()) path = path.parent_path();
  return path;
}

bool isNetwork(const fs::path& path) {
  struct statfs system {};
  if (::statfs(path.c_str(), &system) != 0) return false;
  constexpr std::array<unsigned long, 4> kNetworks = {NFS_SUPER_MAGIC, SMB_SUPER_MAGIC, 0xFF534D42,
                                                      0x01021997};  // …, CIFS, 9p
  return std::find(kNetworks.begin(), kNetworks.end(), static_cast<unsigned long>(system.f_type)) !=
         kNetworks.end();
}

Finding dataFinding(const std::string& data) {
  const fs::path place = nearestThatExists(data);
  std::error_code failed;
  if (!fs::is_directory(place, failed) || ::access(place.c_str(), W_OK | X_OK) != 0) {
    return {Verdict::Bad,
            fmt::format("data directory {}: {} cannot be written", data, place.string()),
            "choose another with --data, or server.data"};
  }
  if (isNetwork(place)) {
    return {Verdict::Bad, fmt::format("data directory {}: it is on a network file system", data),
            "SQLite's log needs a local disk: choose another with --data, or server.data"};
  }
  const auto space = fs::space(place, failed);
  const std::string free =
      failed ? "" : fmt::format(", {} MiB free", space.available / (1024UL * 1024));
  return {Verdict::Good, fmt::format("data directory {}: can be written{}", data, free)};
}

// ---- Network

Finding portFinding(const std::string& listen) {
  const auto url = client::parseUrl(listen);
  if (!url) return {Verdict::Good, fmt::format("listening on {}: any free port", listen)};
  asio::io_context context;
  boost::system::error_code failed;
  const auto address =
      asio::ip::make_address(url->host == "localhost" ? "127.0.0.1" : url->host, failed);
  tcp::acceptor acceptor(context);
  const tcp::endpoint endpoint(address, url->port);
  if (!failed) acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(1, failed);
  if (!failed) return {Verdict::Good, fmt::format("listening on {}: the port is free", listen)};
  if (failed == asio::error::address_in_use) {
    return {Verdict::Missing, fmt::format("listening on {}: something listens there", listen),
            "if that is not a Nimbus of yours, choose another with --listen"};
  }
  return {Verdict::Bad, fmt::format("listening on {}: {}", listen, failed.message()),
          "choose another with --listen"};
}

Finding redisFinding(std::string url) {
  const std::string shown = printable(url);
  const std::size_t scheme = url.find("://");
  std::string_view first = std::string_view(url).substr(scheme == url.npos ? 0 : scheme + 3);
  if (const std::size_t user = first.rfind('@'); user != first.npos) first.remove_prefix(user + 1);
  first = first.substr(0, first.find_first_of(",/"));
  const auto place = client::parseUrl(first);
  const Finding bad{Verdict::Bad, fmt::format("Redis at {}: cannot be reached", shown),
                    "start it, or change gateway.store.redis.url"};
  if (!place) return bad;
  asio::io_context context;
  boost::system::error_code failed;
  tcp::resolver resolver(context);
  const auto addresses = resolver.resolve(place->host, std::to_string(place->port), failed);
  if (failed) return bad;
  boost::beast::tcp_stream stream(context);
  stream.expires_after(std::chrono::seconds(3));
  stream.async_connect(
      addresses, [&](const boost::system::error_code& ended, const auto&) { failed = ended; });
  context.run();
  if (failed) return bad;
  return {Verdict::Good, fmt::format("Redis at {}: can be reached", shown)};
}

}  // namespace

std::vector<Finding> examine(const Place& place) {
  std::vector<Finding> findings = {
      programFinding({"python3"}, "functions in Python", "python3"),
      programFinding({"node", "nodejs"}, "functions in JavaScript", "nodejs"),
      programFinding({"clang++-16", "clang++", "g++", "c++"}, "functions in C++", "g++"),
      namespaceFinding(),
      filesFinding(),
      dataFinding(place.data),
      portFinding(place.listen),
  };
  if (!place.redis.empty()) findings.push_back(redisFinding(place.redis));
  return findings;
}

}  // namespace nimbus::cli
