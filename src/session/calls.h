#pragma once
// The call path: takes a call to the shard of its function, in the order of its session, and what
// is known of sessions back.

#include "base/metrics.h"
#include "base/threads.h"
#include "session/call.h"
#include "session/census.h"
#include "session/function_host.h"
#include "session/function_log.h"
#include "session/function_metrics.h"
#include "session/session_record.h"

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

// Any thread may use any member.
class Calls {
 public:
  struct Parts {
    std::string node_id;
    store::Store& store;
    runtime::Keeper& keeper;
    const SteadyClock& clock;
    Random& random;  // safe from any thread
  };

  // Everything must outlive this.
  Calls(Parts parts, Threads& threads);
  // stop() must have returned, if anything was started or called.
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Begins what goes on in the background: counting what functions keep.
  void start();

  // Takes the call; its outcome follows. QueueFull, with `queue_length`, if its session's line is
  // as long as it may be; Conflict if it was to be taken only by an idle session.
  Result<> submit(const CallPtr& call);

  // Nobody waits for it any more. A call that has not begun never will.
  void abandon(Call& call);

  // Whether the function loads; see FunctionHost::tryOut().
  Task<Result<>> tryOut(FunctionPtr function);

  // NotFound if it was never called, has expired, or was deleted.
  Task<Result<SessionView>> show(std::string function_id, std::string session_key);
  Task<Result<SessionPage>> list(std::string function_id, std::string after, std::size_t limit);
  // Also if there is none.
  Task<Result<>> remove(std::string function_id, std::string session_key);
  // All sessions of a function, what it keeps in function scope, and its instances.
  Task<Result<>> removeAll(std::string function_id);

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
  dispatch::Async<dispatch::TaskOutcome> handle(const dispatch::Task& task);
  Task<Result<SessionView>> read(std::string function_id, std::string session_key);
  static Task<Result<SessionView>> refreshOn(Shard& shard, std::string function_id,
                                             SessionView view);
  Task<Result<>> removeOn(Shard& shard, std::string function_id, std::string session_key);
  Task<Result<>> tryOutOn(Shard& shard, FunctionPtr function);
  Task<Result<>> retireOn(Shard& shard, std::string function_id);
  Task<Result<>> stopShard(Shard& shard);
  Task<Result<>> stopCensus();
  void expose(Metrics::Scrape& scrape) const;

  Counts counts_;
  FunctionMetricsTable function_metrics_;
  Node node_;
  Threads& threads_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::mutex logs_mutex_;
  std::unordered_map<std::string, std::shared_ptr<FunctionLog>> logs_;
  std::atomic<bool> stopping_ = false;
  Census census_;
  std::unique_ptr<dispatch::Dispatcher> dispatcher_;
};

}  // namespace nimbus::session
