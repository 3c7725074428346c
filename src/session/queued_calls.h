#pragma once
// The asynchronous calls of one function, on the shard it lives on: how they are taken, run in
// their turn, tried again, given up, cancelled.
//
// They wait in the store, and only the first of a line are in memory. All calls of a session have
// one order, that of their numbers. An asynchronous call has its number when it is taken; one whose
// caller waits has it when its turn comes, or, if there are asynchronous calls before it then, at
// once, and stands behind them. Who works a line off is the driver. It takes turns with the calls
// of the session, so that nothing runs beside it, and ends when it has run all that had a number
// when it began; what has come meanwhile gets its number, and the driver comes again.
//
// Stateless calls wait in lanes (invocation_record.h): in no order.
//
// Single-threaded, like the FunctionHost it belongs to.

#include "base/result.h"
#include "base/task.h"
#include "base/task_group.h"
#include "session/activation.h"
#include "session/line_host.h"
#include "session/node.h"
#include "session/sender.h"
#include "store/batch.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace nimbus::session {

class QueuedCalls : private Sender::Lines {
 public:
  using Host = LineHost;

  QueuedCalls(Node& node, std::string function_id, const boost::asio::any_io_executor& executor,
              Host& host);
  ~QueuedCalls() override;

  // ---- for callers

  // Takes the call; returns when that is durable. Its number, 0 if it has none, or none yet.
  // `ahead`: calls of the session that wait or run elsewhere. QueueFull, as for other calls;
  // Conflict if the session takes none.
  Task<Result<std::uint64_t>> accept(CallPtr call, Millis delay, std::size_t ahead);
  // What has become due takes its place in the line.
  Task<Result<>> join(std::string key, std::string request_id);
  // A call that waits never runs; one that runs is told to end, and is then Running still.
  // Conflict if it has ended.
  Task<Result<InvocationRecord>> cancel(std::string key, std::string request_id);
  // A call that was given up or has failed is run again. Conflict if it was not.
  Task<Result<InvocationRecord>> replay(std::string key, std::string request_id);
  // The record of the call that the line runs now.
  std::optional<InvocationRecord> running(const std::string& key,
                                          const std::string& request_id) const;

  // A session that is paused starts no call; one that is draining takes none.
  enum class Hold : std::uint8_t { None, Paused, Draining };
  Task<Result<>> hold(std::string key, Hold hold);
  // Whether nothing of the session waits or runs here.
  bool isEmpty(const std::string& key) const;

  // The line may have something to do.
  void ask(const std::string& key);
  // Works the line off. In the turn of its session.
  dispatch::Async<dispatch::TaskOutcome> drive(std::string key);

  // ---- for the host

  // What there is in the store.
  Task<Result<std::unique_ptr<Backlog>>> load(store::Partition partition);
  void onActivated(Activation& activation);
  void onForgotten(Activation& activation);
  // Adds what the call has sent, and sees that it is handed over.
  void addSent(store::Batch& batch, const Call& call, const ActivationPtr& activation);
  // The same for one without a session; settles it.
  void sendStateless(const CallPtr& call);
  // Whether the call must wait for others that have their numbers. If so it has one now, and is
  // seen to.
  bool mustWait(const CallPtr& call, Activation& activation);
  // The session is to leave the memory for another node: whether nothing of it goes on here. If so
  // nothing begins either.
  bool letGo(const Activation& activation);
  // The session leaves the memory.
  void tidy(Activation& activation, store::Batch& batch);
  // The line will be removed: calls that wait there become Cancelled. Which listings of theirs go
  // with it.
  Task<Result<std::vector<store::Listing>>> cancelAll(std::string key);
  // Calls whose callers wait end with that error.
  void failWaiting(const std::string& key, const Error& why);
  Task<> stop();

 private:
  class Change;
  struct Stored {
    store::QueueItem item;
    InvocationRecord record;
  };
  // What the driver is to do with a line.
  struct Step {
    enum class Kind : std::uint8_t { Leave, Again, Read, RunItem, RunWaiting };
    Kind kind = Kind::Leave;
    std::size_t item = 0;
    std::optional<Timestamp> wake_at = {};
  };

  // This node ends what is under way and leaves the rest to others.
  bool isLeaving() const;
  // Whether callers wait for their turn in the line.
  bool hasCallers(const std::string& key) const;
  LineName nameOf(const Activation& activation) const { return {function_id_, activation.key}; }
  void note(const Activation& activation);
  // It has something to run.
  void remember(Activation& activation);
  void listAsWork(Activation& activation, store::Batch& batch) const;

  Task<Result<ActivationPtr>> active(std::string key) override;
  Task<Result<>> durable(ActivationPtr activation) override;
  Task<> reportDurable(ActivationPtr activation, dispatch::Signal<bool> done);
  Task<Result<std::optional<Stored>>> find(store::Partition partition, std::string request_id);

  // Of the driver (line_driver.cpp).
  Step nextStep(const Activation& activation, std::uint64_t up_to, Timestamp now) const;
  Step nextInLane(const Backlog& backlog, Timestamp now) const;
  Task<> readWindow(ActivationPtr activation, dispatch::Signal<bool> done);
  Task<Result<std::vector<Backlog::Item>>> readItems(store::Partition partition);
  CallPtr callOf(const Backlog::Item& item, const FunctionPtr& function) const;
  dispatch::Async<bool> runItem(ActivationPtr activation, FunctionPtr function, std::size_t place);
  dispatch::Async<bool> runWaiting(ActivationPtr activation);
  // Of what was given up or has failed no more is kept than may be.
  void keepFew(const ActivationPtr& activation);
  Task<> dropOldest(ActivationPtr activation);
  Task<Result<bool>> dropSome(ActivationPtr activation);
  Task<> sendFromLane(CallPtr call);

  void wakeAt(const std::string& key, SteadyTime time);
  void setTimer();

  Node& node_;
  const std::string function_id_;
  Host& host_;
  std::unordered_set<std::string> driven_;    // lines for which a driver was asked for
  std::unordered_set<std::string> changing_;  // calls that are being cancelled, joined, replayed
  std::unordered_map<std::string, std::deque<Backlog::Overtaken>> orphans_;
  std::unordered_map<std::string, ActivationPtr> active_;  // those that have something to run
  std::set<std::pair<SteadyTime, std::string>> wakes_;
  boost::asio::steady_timer timer_;
  TaskGroup group_;
  Sender sender_;
};

}  // namespace nimbus::session
