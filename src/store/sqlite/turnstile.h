#pragma once
// One writer at a time over all processes that share a database.
//
// SQLite's own lock is polled for, so the loser of a race sleeps while the winner wins again: one
// process starves. Here nobody polls, and whoever leaves cannot come back before those who wait:
// there are two locks, the gate and the place before it. To enter, one takes the place, then the
// gate, then gives up the place. A process that waits holds the place, so that the one that just
// left has to queue behind it. The kernel wakes those who wait; a timer ends a wait that takes too
// long, because the process whose turn it is may be frozen.
//
// It also covers checkpoints, and must: SQLite before 3.51.3 can damage a WAL that one connection
// resets while another writes.

#include "base/result.h"

#include <chrono>
#include <filesystem>
#include <optional>

namespace nimbus::store::sqlite {

class Turnstile {
 public:
  // `path`: a file of its own beside the database, never the database itself; closing any
  // descriptor of that would drop SQLite's locks.
  static Result<Turnstile> open(const std::filesystem::path& path);

  Turnstile(Turnstile&& other) noexcept;
  Turnstile& operator=(Turnstile&&) = delete;
  Turnstile(const Turnstile&) = delete;
  Turnstile& operator=(const Turnstile&) = delete;
  ~Turnstile();

  // Passing through; leaving is done by the destructor.
  class Pass {
   public:
    explicit Pass(int descriptor) : descriptor_(descriptor) {}
    ~Pass();
    Pass(Pass&& other) noexcept;
    Pass& operator=(Pass&&) = delete;
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    int descriptor_;
  };

  // Blocks until it is our turn, and no longer than `patience`: nothing then, and our place before
  // the gate is given up. One thread at a time.
  //
  // A wait is ended by a signal to the waiting thread, SIGRTMAX, which nobody else in the process
  // may use.
  std::optional<Pass> enter(std::chrono::nanoseconds patience);

 private:
  explicit Turnstile(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
};

}  // namespace nimbus::store::sqlite
