#pragma once
// One function on the shard it lives on: its sessions in memory, its instances, and the way of its
// calls through them.
//
// Single-threaded: every member is called on the shard's thread.

#include "base/random.h"
#include "base/steady_clock.h"
#include "base/task_group.h"
#include "session/activation.h"
#include "session/call.h"
#include "session/function_log.h"
#include "session/pool.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace nimbus::session {

// What is in memory, of all functions.
struct Counts {
  std::atomic<std::size_t> activations = 0;
  std::atomic<std::size_t> instances = 0;
};

// What all hosts of a node share. Everything must outlive them, and be safe from any thread.
struct Node {
  std::string id;  // of this server
  store::Store& store;
  runtime::Keeper& keeper;
  const SteadyClock& clock;
  Random& random;
  Counts& counts;
  // Takes an operation of a stateless call to the session it is for.
  std::function<void(const CallPtr&)> submit;
};

class FunctionHost final : public Pool::Host {
 public:
  FunctionHost(Node& node, std::string function_id, const boost::asio::any_io_executor& executor,
               std::shared_ptr<FunctionLog> log);
  ~FunctionHost() override;

  // Takes the call through to its outcome. Calls of one session must not overlap.
  dispatch::Async<dispatch::TaskOutcome> run(CallPtr call);

  // Starts an instance of it, loads it and ends it: an error says why it does not load.
  Task<Result<>> tryOut(FunctionPtr function);

  // Removes all that there is of a session. A call that is running is fenced.
  Task<Result<>> removeSession(std::string session_key);

  // What is in memory; null if it is not.
  const Activation* find(std::string_view session_key) const;

  // The function is gone: ends its instances and forgets its sessions.
  Task<> retire();
  // Where what its instances print goes from now on.
  void logTo(std::shared_ptr<FunctionLog> log) { log_ = std::move(log); }
  // Ends every instance. Nothing may be run any more.
  Task<> stop();

 private:
  bool wasRemoved(const Call& call) const;
  // How a call of the session came to that instance.
  static Route routeOf(Activation& activation, const FunctionSpec& function,
                       const Pool::MemberPtr& member);
  // Null if it is not in memory, or not to be relied on.
  ActivationPtr findUsable(const std::string& session_key);
  dispatch::Async<Result<ActivationPtr>> activate(const Call& call);
  Task<> loadActivation(std::string session_key, FunctionPtr function,
                        dispatch::Signal<Result<ActivationPtr>> loaded);
  Task<Result<ActivationPtr>> load(std::string session_key, FunctionPtr function);

  void beginAnew(Activation& activation) const;
  void give(const Pool::Running& running, Activation* activation) const;
  void conclude(Pool::Running& running, Activation* activation);
  void runOperation(const CallPtr& call, Activation& activation);

  // Settles the call when what its answer depends on is durable: what it wrote; what it saw; that
  // its number is not given again after a crash.
  void settleWrite(const CallPtr& call, Activation& activation, state::Changes changes);
  void settleRead(const CallPtr& call, Activation* activation);
  void commit(Activation& activation, store::Batch batch);
  void send(Activation& activation, store::Batch batch);
  void noteAccess(Activation& activation);
  void writeDown(Activation& activation);

  static Task<> endPool(std::shared_ptr<Pool> pool);

  Task<> replyFromFunctionState(std::shared_ptr<runtime::Instance> instance, std::uint64_t request,
                                std::int64_t id, state::Operation operation, CallPtr call);
  Task<> replyFromDefaultSession(std::shared_ptr<runtime::Instance> instance, std::uint64_t request,
                                 std::int64_t id, state::Operation operation, CallPtr call);

  std::shared_ptr<Pool> poolOf(const FunctionPtr& function);
  void onState(Pool::Running& running, const runtime::Frame& frame) override;
  void onLog(std::string_view request_id, std::string_view stream, std::string_view lines) override;
  std::string nextInstanceId() override;
  void onInstances(int change) override;
  void forget(std::unordered_map<std::string, ActivationPtr>::iterator place);
  void needsTicks() override;
  void tick();
  void evictIdle(SteadyTime now);

  Node& node_;
  const std::string id_;
  const boost::asio::any_io_executor executor_;
  std::shared_ptr<FunctionLog> log_;
  std::unordered_map<std::string, ActivationPtr> activations_;
  std::unordered_map<std::string, SteadyTime> removed_;  // calls accepted before are cancelled
  std::vector<std::shared_ptr<Pool>> pools_;             // the newest last
  boost::asio::steady_timer timer_;
  bool ticks_soon_ = false;
  SteadyTime next_eviction_;
  bool stopping_ = false;
  TaskGroup group_;
};

}  // namespace nimbus::session
