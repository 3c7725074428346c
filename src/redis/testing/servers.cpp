#include "redis/testing/servers.h"

#include "redis/command.h"
#include "redis/parser.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <stdexcept>
#include <thread>

namespace nimbus::redis::testing {
namespace {

using namespace std::chrono_literals;

class Socket {
 public:
  Socket() : descriptor_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {}
  ~Socket() { ::close(descriptor_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

template <typename Condition>
void waitFor(Condition condition, const char* what) {
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error(what);
    std::this_thread::sleep_for(10ms);
  }
}

}  // namespace

std::uint16_t freePort() {
  const Socket socket;
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* const generic = reinterpret_cast<sockaddr*>(&address);  // NOLINT(*-reinterpret-cast)
  if (::bind(socket.descriptor(), generic, size) != 0 ||
      ::getsockname(socket.descriptor(), generic, &size) != 0) {
    throw std::runtime_error("no free port");
  }
  return ntohs(address.sin_port);
}

Server::Server(std::vector<std::string> arguments, std::uint16_t port)
    : arguments_(std::move(arguments)), port_(port) {
  std::string name = (std::filesystem::temp_directory_path() / "nimbus-redis-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  directory_ = name;
  start();
}

Server::~Server() {
  kill();
  std::error_code ignored;
  std::filesystem::remove_all(directory_, ignored);
}

void Server::start() {
  std::vector<std::string> words = {"redis-server",
                                    "--port",
                                    std::to_string(port_),
                                    "--bind",
                                    "127.0.0.1",
                                    "--dir",
                                    directory_,
                                    "--loglevel",
                                    "warning",
                                    "--logfile",
                                    "redis.log",
                                    "--save",
                                    ""};
  words.insert(words.end(), arguments_.begin(), arguments_.end());
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  const auto answers = [&] {
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) throw std::runtime_error("redis-server ended");
    try {
      return !ask({"PING"}).isNull();
    } catch (const std::runtime_error&) {
      return false;
    }
  };
  waitFor(answers, "redis-server does not answer");
}

void Server::kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

void Server::pause() {
  ::kill(pid_, SIGSTOP);
}

void Server::resume() {
  ::kill(pid_, SIGCONT);
}

Value Server::ask(const std::vector<std::string>& command) const {
  const Socket socket;
  const sockaddr_in address = loopback(port_);
  const auto* const generic = reinterpret_cast<const sockaddr*>(&address);  // NOLINT(*-cast)
  if (::connect(socket.descriptor(), generic, sizeof address) != 0) {
    throw std::runtime_error("redis-server cannot be reached");
  }
  Command encoded(command.front());
  for (std::size_t i = 1; i < command.size(); ++i) encoded.add(command[i]);
  const std::string bytes = encoded.bytes();
  if (::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) {
    throw std::runtime_error("redis-server hung up");
  }
  Parser parser;
  std::array<char, 4096> buffer{};
  while (true) {
    const ssize_t size = ::recv(socket.descriptor(), buffer.data(), buffer.size(), 0);
    if (size <= 0) throw std::runtime_error("redis-server did not answer");
    parser.feed({buffer.data(), static_cast<std::size_t>(size)});
    auto value = parser.next();
    if (!value) throw std::runtime_error(value.error().message());
    if (*value) return **std::move(value);
  }
}

// ---- the cluster

ClusterOfThree::ClusterOfThree() {
  std::vector<std::uint16_t> buses;
  for (int i = 0; i < 3; ++i) {
    buses.push_back(freePort());
    nodes_.push_back(std::make_unique<Server>(
        std::vector<std::string>{"--cluster-enabled", "yes", "--cluster-port",
                                 std::to_string(buses.back()), "--cluster-node-timeout", "15000"}));
  }
  const std::array<std::pair<int, int>, 3> ranges = {std::pair(0, 5460), std::pair(5461, 10922),
                                                     std::pair(10923, 16383)};
  for (std::size_t i = 0; i < 3; ++i) {
    node(i).ask({"CLUSTER", "ADDSLOTSRANGE", std::to_string(ranges.at(i).first),
                 std::to_string(ranges.at(i).second)});
    node(i).ask({"CLUSTER", "SET-CONFIG-EPOCH", std::to_string(i + 1)});
  }
  for (std::size_t i = 1; i < 3; ++i) {
    node(0).ask(
        {"CLUSTER", "MEET", "127.0.0.1", std::to_string(node(i).port()), std::to_string(buses[i])});
  }
  for (const auto& server : nodes_) {
    const auto ready = [&] {
      const std::string info = server->ask({"CLUSTER", "INFO"}).text;
      return info.find("cluster_state:ok") != std::string::npos &&
             info.find("cluster_known_nodes:3") != std::string::npos &&
             server->ask({"CLUSTER", "SLOTS"}).items.size() == 3;
    };
    waitFor(ready, "the cluster does not come up");
  }
}

std::vector<Address> ClusterOfThree::addresses() const {
  std::vector<Address> all;
  for (const auto& server : nodes_) all.push_back(server->address());
  return all;
}

std::size_t ClusterOfThree::ownerOf(std::uint16_t slot) const {
  const Value slots = nodes_.front()->ask({"CLUSTER", "SLOTS"});
  for (const Value& range : slots.items) {
    if (slot < range.items[0].integer || slot > range.items[1].integer) continue;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i]->port() == range.items[2].items[1].integer) return i;
    }
  }
  throw std::runtime_error("nobody has the slot");
}

std::string ClusterOfThree::idOf(std::size_t node) const {
  return nodes_.at(node)->ask({"CLUSTER", "MYID"}).text;
}

}  // namespace nimbus::redis::testing
