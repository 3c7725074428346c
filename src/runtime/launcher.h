#pragma once
// How the process of an instance comes to be. What happens on its socket afterwards is the same for
// every language (instance.h).
//
// This is also where another kind of isolation comes in: whatever hands over a stream socket, two
// streams of output and a way to be ended is a Launcher, a virtual machine too.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "runtime/cell.h"
#include "runtime/keeper.h"

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nimbus::runtime {

// The server's ends of a process that was started, or is about to be.
struct Ends {
  Descriptor socket;
  Descriptor out;
  Descriptor err;
  pid_t process = 0;  // 0: it will say so itself (Hello)
  Cell cell;          // the one it lives in, if it does
  // Bytes of memory that it may take beyond what it has when it says Hello; 0: no limit.
  std::size_t memory_limit = 0;
};

struct Connection {
  Ends ours;
  Channels theirs;
};
Result<Connection> connect();

// Any thread may use any member.
class Launcher {
 public:
  virtual ~Launcher() = default;

  virtual Task<Result<Ends>> launch() = 0;
};

// Where processes are to run: on the host, or each in a cell of its own.
struct Home {
  Cells* cells = nullptr;  // null: on the host
  Network network = Network::None;

  bool isCell() const { return cells != nullptr; }
};

// Starts the command each time.
class ProgramLauncher final : public Launcher {
 public:
  // `mounts`: what it needs to see to be started; for a cell.
  ProgramLauncher(Keeper& keeper, Command command, Home home, std::vector<CodeMount> mounts = {})
      : keeper_(keeper), command_(std::move(command)), home_(home), mounts_(std::move(mounts)) {}

  Task<Result<Ends>> launch() override;

 private:
  Keeper& keeper_;
  const Command command_;
  const Home home_;
  const std::vector<CodeMount> mounts_;
};

// Has some processes started before they are needed, for programs that take long to start. Begins
// with the first launch.
class WarmLauncher final : public Launcher {
 public:
  WarmLauncher(Keeper& keeper, Command command, Home home, std::size_t spare)
      : program_(keeper, std::move(command), home), spare_(spare) {}

  Task<Result<Ends>> launch() override;

  // Starts what is missing; launch() does it too, after it has answered.
  Task<> refill();

 private:
  ProgramLauncher program_;
  const std::size_t spare_;
  std::mutex mutex_;
  std::vector<Ends> warm_;
  std::size_t starting_ = 0;
};

// A process that has the interpreter loaded, and forks. It is started when it is first needed.
class Zygote {
 public:
  Zygote(Keeper& keeper, Command command) : keeper_(keeper), command_(std::move(command)) {}

  // Forks a process that begins with these, in the cell if there are namespaces.
  Task<Result<>> fork(const Channels& channels, std::span<const Descriptor> namespaces);

 private:
  using Started = OneShot<Result<>>;

  Task<Result<>> start();
  Task<Result<>> startAlone();
  bool tryFork(const Channels& channels, std::span<const Descriptor> namespaces);

  Keeper& keeper_;
  const Command command_;
  std::mutex mutex_;
  Descriptor socket_;  // guarded by mutex_, as are
  bool is_starting_ = false;
  std::vector<std::shared_ptr<Started>> waiting_;  // for it to be started
};

class ZygoteLauncher final : public Launcher {
 public:
  ZygoteLauncher(std::shared_ptr<Zygote> zygote, Home home)
      : zygote_(std::move(zygote)), home_(home) {}

  Task<Result<Ends>> launch() override;

 private:
  const std::shared_ptr<Zygote> zygote_;
  const Home home_;
};

// What another launcher starts for anybody, for one function: with its share of memory and, in a
// cell, its code.
class FunctionLauncher final : public Launcher {
 public:
  FunctionLauncher(std::shared_ptr<Launcher> launcher, std::size_t memory_limit,
                   std::vector<CodeMount> mounts)
      : launcher_(std::move(launcher)), memory_limit_(memory_limit), mounts_(std::move(mounts)) {}

  Task<Result<Ends>> launch() override;

 private:
  const std::shared_ptr<Launcher> launcher_;
  const std::size_t memory_limit_;
  const std::vector<CodeMount> mounts_;
};

}  // namespace nimbus::runtime
