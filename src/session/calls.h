#pragma once
// The call path: takes a call to the shard of its function, in the order of its session, and what
// is known of sessions back.

#include "base/metrics.h"
#include "base/threads.h"
#include "cluster/moved.h"
#include "session/call.h"
#include "session/census.h"
#include "session/function_host.h"
#include "session/function_log.h"
#include "session/function_metrics.h"
#include "session/idempotency.h"
#include "session/invocation_record.h"
#include "session/session_copy.h"
#include "session/session_record.h"

#include <boost/asio/steady_timer.hpp>
#include <nimbus/dispatch/dispatcher.h>

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace nimbus::session {

struct SessionView {
  std::string session_key;
  SessionRecord record;
  store::Version version = 0;  // of the record in the store
  std::vector<std::string> state_keys;
  std::uint64_t total_size = 0;
  std::uint64_t next_number = 0;
  std::size_t waiting = 0;
  bool running = false;
  bool paused = false;
};

struct SessionPage {
  std::vector<SessionView> items;
  std::optional<std::string> next;  // go on behind this key
};

// An asynchronous call as others see it.
struct Invocation {
  std::string request_id;
  InvocationRecord record;
};

struct InvocationFilter {
  std::optional<std::string> function_id = {};
  std::optional<std::string> session_key = {};
  std::optional<InvocationRecord::Status> status = {};
};

struct InvocationPage {
  std::vector<Invocation> items;
  std::optional<std::string> next;  // go on behind this request id
};

// Any thread may use any member. Of what concerns one session that another node owns the error is
// cluster::movedTo(): nothing was done, and whom to ask.
class Calls {
 public:
  struct Parts {
    std::string node_id;
    store::Store& store;
    runtime::Keeper& keeper;
    const SteadyClock& clock;
    Random& random;  // safe from any thread
    // The function of that id as it is deployed now; null if there is none. Any thread asks.
    std::function<FunctionPtr(std::string_view id)> find;
    // How long it is known what became of an asynchronous call.
    Millis keep_results = std::chrono::hours(24);
    // The same of one that was given up or has failed, and with what it was called.
    Millis keep_parked = std::chrono::hours(7 * 24);
    // The same of the answer to an idempotency key.
    Millis keep_answers = std::chrono::hours(24);
    Cache cache = {};
    // The nodes that share the store; null: there are no others.
    cluster::Members* members = nullptr;
    // Hands an asynchronous call to the node that owns its line. With members only.
    std::function<Task<Result<std::uint64_t>>(cluster::Moved moved, CallPtr call, Millis delay)>
        forward = nullptr;
    // Has an operation carried out by the node that owns its session. With members only.
    std::function<Task<Result<state::Answer>>(cluster::Moved moved, CallPtr call)> operate =
        nullptr;
  };

  // Everything must outlive this.
  Calls(Parts parts, Threads& threads);
  // stop() must have returned, if anything was started or called.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Begins what goes on in the background: counting what functions keep, running what is due.
  // Asynchronous calls that wait in the store are gone on with.
  void start();

  // Takes the call; its outcome follows. QueueFull, with `queue_length`, if its session's line is
  // as long as it may be; Conflict if it was to be taken only by an idle session.
  Result<> submit(const CallPtr& call);

  // Nobody waits for it any more. A call that has not begun never will.
  void abandon(Call& call);

  // ---- asynchronous calls

  // Takes a call that nobody waits for; returns when that is durable. Its number in its session; 0
  // if it has none, or, being delayed, none yet. Refused as by submit().
  Task<Result<std::uint64_t>> accept(CallPtr call, Millis delay);
  // NotFound if there was no such call, or it ended too long ago.
  Task<Result<Invocation>> invocation(std::string request_id);
  // The same, but waits for its end for so long.
  Task<Result<Invocation>> awaitInvocation(std::string request_id, Millis patience);
  // By request id. Looks at no more than some thousands at once: a page may be short, or empty, and
  // have a next.
  Task<Result<InvocationPage>> invocations(InvocationFilter filter, std::string after,
                                           std::size_t limit);

  // ---- idempotency keys

  // The answer that the key stands for. If there is none the key is in use from now on, and must be
  // given back by releaseKey(). Conflict if it is in use, Unprocessable if it is for something
  // else.
  Task<Result<std::optional<StoredAnswer>>> takeKey(Idempotency idempotency);
  void releaseKey(const std::string& name) { keys_in_use_.release(name); }
  enum class Kept : std::uint8_t { Answer, Acceptance };
  // Has the answer to the call kept for the key, together with its effect.
  void keepAnswer(Call& call, Idempotency idempotency, Kept what);
  // The same for a call that has ended and has no session.
  Task<Result<>> keepStatelessAnswer(CallPtr call);

  // As in QueuedCalls.
  Task<Result<Invocation>> cancel(std::string request_id);
  Task<Result<Invocation>> replay(std::string request_id);

  // Lets go of all sessions, each when nothing of it runs here, so that other nodes have them.
  // Returns when none is left, or that time has passed.
  Task<> handOver(Millis patience);

  // Whether the function loads; see FunctionHost::tryOut().
  Task<Result<>> tryOut(FunctionPtr function);

  // NotFound if it was never called, has expired, or was deleted.
  Task<Result<SessionView>> show(std::string function_id, std::string session_key);
  // Those after `after` whose keys begin with `prefix`, by key.
  Task<Result<SessionPage>> list(std::string function_id, std::string after, std::size_t limit,
                                 std::string prefix = "");
  // Also if there is none.
  Task<Result<>> remove(std::string function_id, std::string session_key);
  // A paused session runs nothing, one that is draining takes nothing; both until it is held no
  // more, also after a restart. NotFound as for show().
  Task<Result<>> hold(std::string function_id, std::string session_key, QueuedCalls::Hold hold);
  // Conflict if there is a session of that key. `prefix`: of its calls' request ids.
  Task<Result<>> importSession(SessionCopy copy, std::string prefix);
  // Returns when nothing of the session waits or runs any more.
  Task<Result<>> drain(std::string function_id, std::string session_key);
  // All sessions of a function, what it keeps in function scope, and its instances.
  Task<Result<>> removeAll(std::string function_id);

  // Ends the instances of a function that is gone, and forgets its sessions: another node has
  // removed it.
  Task<Result<>> retire(std::string function_id);

  std::shared_ptr<FunctionLog> logOf(std::string_view function_id);

  const Counts& counts() const { return counts_; }

  // Of the functions that are deployed. Whoever deploys them says so here.
  FunctionMetricsTable& functionMetrics() { return function_metrics_; }
  // Shows them, and the dispatcher's figures. `metrics` must not be exposed when this is gone.
  void addTo(Metrics& metrics);
  SteadyTime now() const { return node_.clock.now(); }

  // Takes no more calls and ends every instance; calls that are still under way fail. Blocks the
  // thread for a moment, which must be none of the Threads.
  Task<> stop();

 private:
  struct Shard;

  static std::string nameOf(const Call& call);
  static std::string nameOf(std::string_view function_id, std::string_view session_key);
  std::size_t shardOf(std::string_view function_id) const;
  FunctionHost& hostOf(Shard& shard, const std::string& function_id);
  Result<> take(const CallPtr& call);
  // As show(), whoever owns it.
  Task<Result<SessionView>> look(std::string function_id, std::string session_key);

  // Of several nodes (calls_cluster.cpp).
  Result<> checkElsewhere(std::string_view function_id, std::string_view session_key);
  static Task<Result<bool>> isOwnedOn(Shard& shard, LineName line);
  Task<Result<>> mustBeHere(LineName line);
  Task<Result<>> mustBePlacedHere(std::string owner, LineName line);
  Task<Result<std::uint64_t>> sendAnywhere(CallPtr call, Millis delay);
  Task<Result<std::size_t>> handOverOn(Shard& shard);
  Task<> followMembers();
  dispatch::Async<dispatch::TaskOutcome> handle(const dispatch::Task& task);
  Task<Result<SessionView>> read(std::string function_id, std::string session_key);
  static Task<Result<SessionView>> refreshOn(Shard& shard, std::string function_id,
                                             SessionView view);
  Task<Result<>> removeOn(Shard& shard, std::string function_id, std::string session_key);
  Task<Result<>> tryOutOn(Shard& shard, FunctionPtr function);
  Task<Result<>> retireOn(Shard& shard, std::string function_id);
  Task<Result<>> stopShard(Shard& shard);
  Task<Result<>> stopBackground();

  // Of asynchronous calls (calls_async.cpp).
  struct Drive {
    LineName line;
  };
  void submitDrive(const LineName& line);
  void setNote(const LineName& line, const LineNote& note);
  LineNote noteOf(const std::string& name) const;
  // What is known of a line besides how many wait in the dispatcher; refuses if that is enough.
  Result<> checkNote(const Call& call, dispatch::Task& task) const;
  Error queueFull(const Call& call, std::size_t waiting) const;
  Task<Result<LineName>> lineOf(std::string request_id);
  // As invocation(), whoever owns the line.
  Task<Result<Invocation>> lookAt(LineName line, std::string request_id);
  Task<Result<InvocationRecord>> recordOf(LineName line, std::string request_id);
  Task<Result<Invocation>> overlayOn(Shard& shard, LineName line, Invocation invocation);
  Task<Result<std::uint64_t>> acceptOn(Shard& shard, CallPtr call, Millis delay, std::size_t ahead);
  using Change = Task<Result<InvocationRecord>> (QueuedCalls::*)(std::string key,
                                                                 std::string request_id);
  Task<Result<InvocationRecord>> changeOn(Shard& shard, LineName line, std::string request_id,
                                          Change change);
  Task<Result<Invocation>> change(std::string request_id, Change change);
  Task<Result<Invocation>> replayUnreceived(LineName line, store::QueueItem item);
  Task<Result<>> removeItem(store::Partition partition, std::string request_id, bool if_lone);
  Task<Result<bool>> leadsNowhere(store::DirectoryEntry entry, std::string space);
  Task<Result<>> joinOn(Shard& shard, LineName line, std::string request_id);
  Task<Result<>> holdOn(Shard& shard, LineName line, QueuedCalls::Hold hold);
  Task<Result<bool>> isEmptyOn(Shard& shard, LineName line);
  Task<Result<>> askOn(Shard& shard, LineName line);
  Task<Result<std::optional<StoredAnswer>>> storedAnswer(Idempotency idempotency);
  Task<> resumeWork();
  Task<Result<>> resume(store::DirectoryEntry entry);
  Task<> runDue();
  // Something may be due earlier than runDue() thinks.
  void lookForDue();
  Task<Result<>> joinDue(store::DirectoryEntry entry);
  // Removes listings of what is not there any more.
  Task<> sweepListings(const char* directory, const char* space);
  Task<> pause(Millis time);
  void expose(Metrics::Scrape& scrape) const;

  Counts counts_;
  FunctionMetricsTable function_metrics_;
  Node node_;
  Threads& threads_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::mutex logs_mutex_;
  std::unordered_map<std::string, std::shared_ptr<FunctionLog>> logs_;
  std::atomic<bool> stopping_ = false;
  mutable std::mutex notes_mutex_;
  std::unordered_map<std::string, LineNote> notes_;  // by the dispatcher's name; guarded
  std::function<Task<Result<std::uint64_t>>(cluster::Moved, CallPtr, Millis)> forward_;
  const Millis keep_answers_;
  KeysInUse keys_in_use_;
  std::atomic<std::int64_t> next_due_ = 0;  // in store time; what runDue() waits for
  boost::asio::steady_timer due_timer_;     // on the first thread, as is
  TaskGroup background_;
  Census census_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
};

}  // namespace nimbus::session
