#pragma once
// Kept connections to other nodes, and requests over them.

#include "base/clock.h"
#include "base/result.h"
#include "base/task.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nimbus::cluster {

struct PeerAnswer {
  int status = 0;
  std::string head;  // the header fields as they came, each with its line end
  std::string body;

  // Case of the name does not matter; empty if there is none.
  std::string_view header(std::string_view name) const;
};

// Any thread. A connection belongs to the thread that made it.
class Peers {
 public:
  struct Options {
    Millis connect_timeout{1'000};
    // Before the other side closes it: what is sent on a connection that closes may be lost.
    Millis idle_timeout{20'000};
    std::size_t max_idle = 256;  // to one node, per thread
    std::size_t max_body_bytes = 256UL * 1024 * 1024;
  };

  explicit Peers(Options options) : options_(options) {}
  Peers() : Peers(Options()) {}
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  // Sends the bytes, a whole request, and waits for the answer for as long as the node is not
  // dropped. Unavailable: NotApplied if it cannot have been read, Unknown if it may have been.
  // Takes no notice of cancellation: what was asked for is seen through.
  Task<Result<PeerAnswer>> send(std::string address, std::string request);

  // The node is gone: whoever waits for its answer is told so.
  void drop(const std::string& address);
  // The node is asked nothing more, and still answers what it was asked.
  void dropIdle(const std::string& address);

  // Open connections, idle or not.
  std::size_t connections() const;

 private:
  struct Connection;
  using ConnectionPtr = std::shared_ptr<Connection>;
  struct Peer {
    std::unordered_map<const void*, std::vector<ConnectionPtr>> idle;  // by thread
    std::unordered_set<ConnectionPtr> busy;
  };
  class Use;

  Task<Result<PeerAnswer>> sendUncancelled(std::string address, std::string request);
  ConnectionPtr takeIdle(const std::string& address, const void* thread);
  Task<Result<>> connect(ConnectionPtr connection, std::string address);
  Task<Result<PeerAnswer>> exchange(ConnectionPtr connection, std::string request);

  const Options options_;
  mutable std::mutex mutex_;
  std::unordered_map<std::string, Peer> peers_;  // by address; guarded
};

}  // namespace nimbus::cluster
