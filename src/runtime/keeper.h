#pragma once
// The keeper starts processes for the server, and ends them all when the server is gone, however
// that happened.
//
// It is a process of its own, forked from the server before that has threads: small, with one
// thread, so that forking from it is quick and safe. Whatever its children leave behind becomes its
// child too, so nothing of theirs outlives the server. It lives as long as the server's end of
// their socket is open, and no signal but SIGKILL ends it.

#include "base/result.h"
#include "base/task.h"
#include "runtime/system_call_filter.h"

#include <boost/asio/any_io_executor.hpp>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nimbus::runtime {

// A descriptor that is closed with its owner.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    reset(other.release());
    return *this;
  }
  ~Descriptor() { reset(); }

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void reset(int number = -1);

 private:
  int number_ = -1;
};

// How a process ended.
struct ExitStatus {
  bool signalled = false;
  int number = 0;  // of the signal, or what it exited with

  std::string text() const;  // "it exited with 3", "it was killed by signal 9"
};

struct Command {
  std::vector<std::string> arguments;    // the first is the program, by its path
  std::vector<std::string> environment;  // NAME=value
  std::string directory;
};

// Descriptors a process begins with, besides 0, which is /dev/null.
struct Channels {
  Descriptor socket;  // 3
  Descriptor out;     // 1
  Descriptor err;     // 2
};

// What is to be seen in a cell (cell.h), besides the system.
struct CellContents {
  struct Seen {
    std::string path;   // on the host
    std::string place;  // in the cell, read-only
  };
  std::string code;  // the folder of all code; nothing of it is seen until it is mounted
  std::vector<Seen> seen;
};
enum class Network : std::uint8_t { None, Hosts };

// Any thread may use any member.
class Keeper {
 public:
  // Forks. Call before any thread is started.
  static Result<std::unique_ptr<Keeper>> start();

  // Ends the keeper and all it has started, and waits for that.
  ~Keeper();

  Keeper(const Keeper&) = delete;
  Keeper& operator=(const Keeper&) = delete;

  // From now on the keeper is heard, on that executor, as long as its context runs.
  void listen(const boost::asio::any_io_executor& executor);

  // Starts a program, as the leader of a session and process group of its own. It is killed if the
  // keeper dies. With the namespaces of a cell it runs in there, without any rights.
  Task<Result<pid_t>> spawn(Command command, Channels channels,
                            std::span<const Descriptor> namespaces = {});

  // Begins a cell: its first process, which talks on `control` (cell_process.h) and ends with it.
  Task<Result<pid_t>> beginCell(const CellContents& contents, Network network, Descriptor control);

  // What processes in cells are refused.
  const SystemCallFilter& filter() const;

  // Kills the process and its group, if it is one of the keeper's children.
  void kill(pid_t process);

  // Its end, once it has ended: a status that was not asked for within a while is forgotten.
  // Unavailable if it does not end in `patience`.
  Task<Result<ExitStatus>> exitOf(pid_t process, std::chrono::milliseconds patience);

  struct State;  // private to keeper.cpp

 private:
  explicit Keeper(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace nimbus::runtime
