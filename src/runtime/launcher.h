#pragma once
// How the process of an instance comes to be. What happens on its socket afterwards is the same for
// every language (instance.h).

#include "base/result.h"
#include "base/task.h"
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

// Starts the command each time.
class ProgramLauncher final : public Launcher {
 public:
  ProgramLauncher(Keeper& keeper, Command command)
      : keeper_(keeper), command_(std::move(command)) {}

  Task<Result<Ends>> launch() override;

 private:
  Keeper& keeper_;
  const Command command_;
};

// Has some processes started before they are needed, for programs that take long to start. Begins
// with the first launch.
class WarmLauncher final : public Launcher {
 public:
  WarmLauncher(Keeper& keeper, Command command, std::size_t spare)
      : program_(keeper, std::move(command)), spare_(spare) {}

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

// Forks from a process that has the interpreter loaded.
class ZygoteLauncher final : public Launcher {
 public:
  ZygoteLauncher(Keeper& keeper, Command command) : keeper_(keeper), command_(std::move(command)) {}

  Task<Result<Ends>> launch() override;

 private:
  Task<Result<>> startZygote();
  bool fork(const Channels& channels);

  Keeper& keeper_;
  const Command command_;
  std::mutex mutex_;
  Descriptor zygote_;
};

}  // namespace nimbus::runtime
