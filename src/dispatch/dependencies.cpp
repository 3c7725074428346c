#include "dispatch/dependencies.h"

#include <algorithm>

namespace nimbus::dispatch {

void Dependencies::add(Job& job, Job& other) {
  if (!other.await()) {
    if (other.phase() != Phase::Done) job.dependency_failed = true;
    return;
  }
  job.blocked_on.fetch_add(1, std::memory_order_relaxed);
  awaited_by_[&other].push_back(&job);
  waits_for_[&job].push_back(&other);
}

void Dependencies::ended(Job& job, const std::function<void(Job&)>& unblock) {
  const std::lock_guard lock(mutex_);
  const auto found = awaited_by_.find(&job);
  if (found == awaited_by_.end()) return;
  const std::vector<Job*> waiting = std::move(found->second);
  awaited_by_.erase(found);
  for (Job* const waiter : waiting) {
    removeEdge(waits_for_, waiter, &job);
    if (job.phase() != Phase::Done) waiter->dependency_failed = true;
    unblock(*waiter);
  }
}

void Dependencies::forget(Job& job) {
  const std::lock_guard lock(mutex_);
  const auto found = waits_for_.find(&job);
  if (found == waits_for_.end()) return;
  const std::vector<Job*> others = std::move(found->second);
  waits_for_.erase(found);
  for (Job* const other : others) removeEdge(awaited_by_, other, &job);
}

void Dependencies::removeEdge(Edges& edges, Job* from, Job* to) {
  const auto found = edges.find(from);
  if (found == edges.end()) return;
  std::erase(found->second, to);
  if (found->second.empty()) edges.erase(found);
}

}  // namespace nimbus::dispatch
