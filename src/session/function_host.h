#pragma once
// One function on the shard it lives on: its sessions in memory, its instances, and the way of its
// calls through them.
//
// Single-threaded: every member is called on the shard's thread.

#include "base/steady_clock.h"
#include "base/task_group.h"
#include "session/activation.h"
#include "session/call.h"
#include "session/function_log.h"
#include "session/node.h"
#include "session/pool.h"
#include "session/queued_calls.h"
#include "store/store.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace nimbus::session {

class FunctionHost final : public Pool::Host, public QueuedCalls::Host {
 public:
  FunctionHost(Node& node, std::string function_id, const boost::asio::any_io_executor& executor,
               std::shared_ptr<FunctionLog> log);
  ~FunctionHost() override;

  // Takes the call through to its outcome. Calls of one session must not overlap.
  dispatch::Async<dispatch::TaskOutcome> run(CallPtr call) override;

  // The asynchronous calls of the function.
  QueuedCalls& queued() { return queued_; }

  // Starts an instance of it, loads it and ends it: an error says why it does not load.
  Task<Result<>> tryOut(FunctionPtr function);

  // Removes all that there is of a session. A call that is running is fenced.
  Task<Result<>> removeSession(std::string session_key);

  // What is in memory; null if it is not.
  const Activation* find(std::string_view session_key) const;
  // Whether it is in memory, and nobody else can have claimed it since.
  bool surelyOwns(std::string_view session_key) const;

  // Lets go of sessions that other nodes are to have, if nothing of them goes on: of all when this
  // node leaves, else of those that the ring proposes others for and that rest. How many are left
  // that should go.
  enum class Reason : std::uint8_t { Leaving, Balance };
  std::size_t handOver(Reason reason);

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
  void whenActive(const std::string& session_key, const FunctionPtr& function,
                  Activated then) override;
  Task<> loadActivation(std::string session_key, FunctionPtr function);
  Task<Result<ActivationPtr>> load(std::string session_key, FunctionPtr function);

  Task<Result<std::string>> placeOf(std::string owner, std::string session_key);
  void beginAnew(Activation& activation) const;
  void give(const Pool::Running& running, Activation* activation) const;
  void conclude(Pool::Running& running, const ActivationPtr& activation);

  // What a call does with the event log of its session (call_events.cpp).
  bool appendsEvents(const Pool::Running& running) const;
  dispatch::Signal<bool> planEvents(Pool::Running& running, ActivationPtr activation);
  Task<> planEvents(Pool::Running& running, ActivationPtr activation,
                    dispatch::Signal<bool> planned);
  Task<> settleAfterIntent(CallPtr call, GatePtr durable, events::Intent intent);
  Task<> replyRecentEvents(std::shared_ptr<runtime::Instance> instance, std::uint64_t request,
                           std::int64_t id, std::int64_t count, CallPtr call);
  Task<Result<>> whenDurable(CallPtr call, GatePtr gate);

  // Whether all that a call has sent can be; its error if not.
  Result<> checkSent(const std::vector<SentCall>& sent) const;
  void runOperation(const CallPtr& call, const ActivationPtr& activation);

  // Settles the call when what its answer depends on is durable: what it wrote; what it saw; that
  // its number is not given again after a crash.
  void settleWrite(const CallPtr& call, const ActivationPtr& activation, state::Changes changes,
                   std::optional<events::CallAppend> append = std::nullopt);
  void settleRead(const CallPtr& call, const ActivationPtr& activation);
  void commit(Activation& activation, store::Batch batch) override;
  void cancelRunning(const Call& call) override;
  bool isStopping() const override { return stopping_; }
  void send(Activation& activation, store::Batch batch);
  void noteAccess(Activation& activation);
  // Whether no other node can own the session: if not a commit must tell.
  bool isSurelyOurs(const Activation& activation) const;
  // After a lost lease what is in memory is claimed again, by the next commit.
  void claimAnew(Activation& activation) const;
  void writeDown(Activation& activation);

  static Task<> endPool(std::shared_ptr<Pool> pool);

  Task<> replyFromFunctionState(std::shared_ptr<runtime::Instance> instance, std::uint64_t request,
                                std::int64_t id, state::Operation operation, CallPtr call);
  Task<Result<state::Answer>> operateAnywhere(FunctionPtr function, std::string request_id,
                                              state::Operation operation);
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
  // Somebody calls it.
  void use(Activation& activation) override;
  void countBytes(Activation& activation);
  bool isOverBudget() const;
  bool isInUse(const Activation& activation) const;
  // Lets some go that nobody has called for long, or for which there is no room. False: there may
  // be more of them.
  bool evict(SteadyTime now);

  Node& node_;
  const std::string id_;
  const boost::asio::any_io_executor executor_;
  std::shared_ptr<FunctionLog> log_;
  std::unordered_map<std::string, ActivationPtr> activations_;
  boost::intrusive::list<Activation>
      by_use_;  // those of activations_, the one used last at the end
  std::unordered_map<std::string, std::vector<Activated>> loading_;  // and who waits for it
  std::unordered_map<std::string, SteadyTime> removed_;  // calls accepted before are cancelled
  std::vector<std::shared_ptr<Pool>> pools_;             // the newest last
  boost::asio::steady_timer timer_;
  bool ticks_soon_ = false;
  SteadyTime next_eviction_;
  SteadyTime next_balance_;
  bool stopping_ = false;
  TaskGroup group_;
  QueuedCalls queued_;
};

}  // namespace nimbus::session
