#pragma once
// What all functions of a server share.

#include "base/random.h"
#include "base/steady_clock.h"
#include "base/task.h"
#include "cluster/members.h"
#include "cluster/moved.h"
#include "runtime/keeper.h"
#include "session/call.h"
#include "session/invocation_record.h"
#include "store/store.h"

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace nimbus::session {

// What is in memory, of all functions.
struct Counts {
  std::atomic<std::size_t> activations = 0;
  std::atomic<std::size_t> activation_bytes = 0;
  std::atomic<std::size_t> instances = 0;
};

// Which sessions stay in memory while nobody calls them. One that does not is read again.
struct Cache {
  Millis idle{30'000};        // at most so long; zero: for ever
  std::size_t max_bytes = 0;  // of all functions; beyond it those called least recently leave
};

// What is to be known of a session before a call of it is taken, besides how many wait in its line.
struct LineNote {
  std::size_t waiting = 0;  // asynchronous calls, and calls behind them
  bool has_driver = false;  // which stands in the line, and is no call
  bool is_paused = false;
  bool is_draining = false;

  bool operator==(const LineNote&) const = default;
};

// Everything must outlive the functions' hosts, and be safe from any thread.
struct Node {
  std::string id;  // of this server
  store::Store& store;
  runtime::Keeper& keeper;
  const SteadyClock& clock;
  Random& random;
  Counts& counts;
  // How long it is known what became of an asynchronous call.
  Millis keep_results;
  // The same of one that was given up: it can be replayed for so long.
  Millis keep_parked;
  Cache cache;
  // Takes an operation of a stateless call to the session it is for.
  std::function<void(const CallPtr&)> submit;
  // The function of that id as it is deployed now; null if there is none.
  std::function<FunctionPtr(std::string_view id)> find;
  // Hands a call to the line it is for; see Calls::accept().
  std::function<Task<Result<std::uint64_t>>(CallPtr call, Millis delay)> send;
  // Has FunctionHost::drive() called in the turn of that line.
  std::function<void(const LineName&)> drive;
  // The nodes that share the store; null: there are no others.
  cluster::Members* members = nullptr;
  // Has an operation carried out by another node; cluster::movedTo() if that is not the owner
  // either. With members only.
  std::function<Task<Result<state::Answer>>(cluster::Moved moved, CallPtr call)> operate;
  // Tells who takes calls.
  std::function<void(const LineName&, const LineNote&)> note;
};

}  // namespace nimbus::session
