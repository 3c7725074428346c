#pragma once
// Commits on their way to Redis: in line per partition, and what becomes of each.

#include "base/clock.h"
#include "redis/client.h"
#include "store/redis/encoding.h"
#include "store/redis/redis_store.h"

#include <boost/asio/any_io_executor.hpp>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace nimbus::store::redis {

class CommitTask;

// All but begin() happens on the client's executor.
class Commits {
 public:
  // `client` must outlive it; `clock` too, if there is one.
  Commits(nimbus::redis::Client& client, boost::asio::any_io_executor executor,
          const Options& options);

  // Any thread.
  PendingCommit begin(CommitOrder order);
  Statistics statistics() const { return {commits_.load(), failed_.load()}; }
  ScriptTime scriptTime() const;

 private:
  friend class CommitTask;
  class Listed;
  class Fields;
  using TaskPtr = std::shared_ptr<CommitTask>;
  struct Line {
    std::deque<TaskPtr> tasks;  // the first is under way
  };

  void drain();
  void advance(const std::string& partition);
  // False if it was refused.
  bool start(const TaskPtr& task);
  void sendCommit(const TaskPtr& task);
  void askForFields(const TaskPtr& task);
  void onFields(const TaskPtr& task, const Result<nimbus::redis::Value>& answer);
  // Those that set entries, or those that remove them; how many there are.
  std::size_t sendListings(const TaskPtr& task, bool sets);
  void onListed(const TaskPtr& task, const Result<nimbus::redis::Value>& answer);
  void onAnswer(const TaskPtr& task, Result<nimbus::redis::Value> answer);
  void onConfirmed(const TaskPtr& task, const Result<>& confirmed);
  void onStepDone(const TaskPtr& task);
  void fail(const TaskPtr& task, const Error& error);
  void end(const TaskPtr& task);

  nimbus::redis::Client& client_;
  const boost::asio::any_io_executor executor_;
  const Topology topology_;
  const bool wants_replicas_;
  const Clock* const clock_;
  const std::size_t max_waiting_;
  std::unordered_map<std::string, Line> lines_;
  std::mutex mutex_;
  std::vector<TaskPtr> inbox_;  // of other threads; guarded by mutex_
  std::atomic<std::size_t> waiting_ = 0;
  std::atomic<std::uint64_t> commits_ = 0;
  std::atomic<std::uint64_t> failed_ = 0;
};

}  // namespace nimbus::store::redis
