#pragma once
// Real Redis servers for tests: on free ports, with nothing kept on disk unless asked for, and gone
// with the test.

#include "redis/address.h"
#include "redis/value.h"

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace nimbus::redis::testing {

std::uint16_t freePort();

class Server {
 public:
  // `arguments` of redis-server, besides port and directory.
  explicit Server(std::vector<std::string> arguments = {}, std::uint16_t port = freePort());
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint16_t port() const { return port_; }
  Address address() const { return {"127.0.0.1", port_}; }

  // Blocks; throws if there is no answer.
  Value ask(const std::vector<std::string>& command) const;
  void kill();   // as kill -9
  void start();  // again, on the same port and directory
  void pause();  // SIGSTOP
  void resume();

 private:
  const std::vector<std::string> arguments_;
  const std::uint16_t port_;
  std::filesystem::path directory_;
  pid_t pid_ = -1;
};

// Three primaries that share the slots.
class ClusterOfThree {
 public:
  ClusterOfThree();

  Server& node(std::size_t index) { return *nodes_.at(index); }
  std::vector<Address> addresses() const;
  std::size_t ownerOf(std::uint16_t slot) const;
  std::string idOf(std::size_t node) const;

 private:
  std::vector<std::unique_ptr<Server>> nodes_;
};

}  // namespace nimbus::redis::testing
