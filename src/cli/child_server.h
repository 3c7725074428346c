#pragma once
// `nimbus serve` as a child of this process.

#include "base/result.h"

#include <sys/types.h>

#include <string>
#include <vector>

namespace nimbus::cli {

// Ends with this process, however that ends. Ctrl-C on the terminal does not reach it: whoever
// started it decides when it stops.
class ChildServer {
 public:
  // This binary with these arguments. Before there are threads.
  static Result<ChildServer> start(const std::vector<std::string>& arguments);

  ChildServer(ChildServer&& other) noexcept;
  ChildServer& operator=(ChildServer&&) = delete;
  // Kills it if it still runs.
  ~ChildServer();

  // Their other ends are its stdout and stderr; they end when it does.
  int out() const { return out_; }
  int err() const { return err_; }

  // Asks it to stop; asked twice, it does so at once.
  void stop() const;
  // Until it has ended.
  void join();

 private:
  ChildServer(pid_t pid, int out, int err) : pid_(pid), out_(out), err_(err) {}

  pid_t pid_;
  int out_;
  int err_;
};

}  // namespace nimbus::cli
