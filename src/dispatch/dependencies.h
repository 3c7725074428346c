#pragma once
// Which tasks wait for which others. Tasks without dependencies, and those that nobody depends on,
// never come here.
//
// Every edge goes to a task that was accepted before (or in the same batch, which is checked), so
// there are no cycles, and the order of sessions cannot close one either.

#include "dispatch/job.h"

#include <functional>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace nimbus::dispatch {

class Dependencies {
 public:
  // Held while a task with dependencies is looked at and accepted.
  [[nodiscard]] std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }

  // With the lock. `job` must not be on its way to its worker yet; `other` may have ended.
  void add(Job& job, Job& other);

  // `job` has ended. `unblock` is called, with the lock held, for each task that waits for it, and
  // counts down its `blocked_on`. Until then that task can neither start nor be let go of.
  void ended(Job& job, const std::function<void(Job&)>& unblock);

  // `job` has ended before what it waits for.
  void forget(Job& job);

 private:
  using Edges = std::unordered_map<Job*, std::vector<Job*>>;

  static void removeEdge(Edges& edges, Job* from, Job* to);

  std::mutex mutex_;
  Edges awaited_by_;  // from a task to those that wait for it
  Edges waits_for_;   // and back
};

}  // namespace nimbus::dispatch
