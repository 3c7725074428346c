// Core::submitBatch: all or nothing per session.
//
// A batch is taken in steps, because its tasks may depend on each other in any order: make and
// index the jobs of every session, refuse the sessions whose dependencies are not there (which may
// take others with them), then let the rest go.

#include "dispatch/core.h"
#include "dispatch/job_shelf.h"

#include <algorithm>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace nimbus::dispatch {

struct Core::Group {
  Group(SessionTable& sessions, std::string_view name) : visit(sessions, name) {}

  SessionTable::Visit visit;
  std::vector<std::size_t> tasks;  // by their place in the batch
  std::vector<Job*> jobs;          // in the same order; empty if the session was refused
  std::vector<Job*> refused;       // to be discarded when no lock is held
  Session* session = nullptr;
  SubmitStatus status = SubmitStatus::Accepted;
};

namespace {

// Tasks of the batch that wait for themselves: through what they depend on within the batch, and
// through the order of their session. Everything else was accepted before and waits for none of it.
class CycleFinder {
 public:
  explicit CycleFinder(const std::vector<Task>& tasks)
      : before_(tasks.size()), after_(tasks.size()) {
    std::unordered_map<std::string_view, std::size_t> by_id;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (!tasks[i].id.empty()) by_id.emplace(tasks[i].id, i);
    }
    std::unordered_map<std::string_view, std::size_t> last_of_session;
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      for (const std::string& id : tasks[i].depends_on) {
        if (const auto found = by_id.find(id); found != by_id.end()) link(found->second, i);
      }
      const auto [last, first] = last_of_session.try_emplace(tasks[i].session_id, i);
      if (!first) link(std::exchange(last->second, i), i);
    }
  }

  std::vector<bool> find() const {
    std::vector<bool> in_cycle(before_.size(), true);
    strip(in_cycle, before_, after_);
    strip(in_cycle, after_, before_);
    return in_cycle;
  }

 private:
  using Edges = std::vector<std::vector<std::size_t>>;

  void link(std::size_t earlier, std::size_t later) {
    before_[later].push_back(earlier);
    after_[earlier].push_back(later);
  }

  // Clears whoever waits for nobody who is left, then whoever waited for those, and so on.
  static void strip(std::vector<bool>& left, const Edges& waits_for, const Edges& awaited_by) {
    std::vector<std::size_t> count(left.size());
    std::vector<std::size_t> free;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (!left[i]) continue;
      count[i] = static_cast<std::size_t>(std::count_if(waits_for[i].begin(), waits_for[i].end(),
                                                        [&](std::size_t j) { return left[j]; }));
      if (count[i] == 0) free.push_back(i);
    }
    while (!free.empty()) {
      const std::size_t i = free.back();
      free.pop_back();
      left[i] = false;
      for (const std::size_t j : awaited_by[i]) {
        if (left[j] && --count[j] == 0) free.push_back(j);
      }
    }
  }

  Edges before_;
  Edges after_;
};

}  // namespace

std::vector<SubmitStatus> Core::submitBatch(std::vector<Task>& tasks) noexcept {
  struct Accepted {
    const Worker* worker;
    std::string session_id;
    std::string task_id;
  };
  std::vector<Accepted> to_log;
  auto lock = dependencies_.lock();
  std::deque<Group> groups;
  std::unordered_map<std::string, Group*> by_session;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    Group*& group = by_session[tasks[i].session_id];
    // The name lives in the map: the task's own is moved into its job.
    if (group == nullptr) {
      group = &groups.emplace_back(sessions_, by_session.find(tasks[i].session_id)->first);
    }
    group->tasks.push_back(i);
  }

  const std::vector<bool> in_cycle = CycleFinder(tasks).find();
  for (Group& group : groups) {
    const bool cyclic = std::any_of(group.tasks.begin(), group.tasks.end(),
                                    [&](std::size_t i) { return in_cycle[i]; });
    if (cyclic) {
      group.status = SubmitStatus::DependencyCycle;
    } else {
      prepare(group, tasks);
    }
  }

  // Who depends on a refused task is refused, and so is who depends on that one.
  std::unordered_set<const Job*> of_batch;
  for (const Group& group : groups) of_batch.insert(group.jobs.begin(), group.jobs.end());
  Ended ended;
  const auto isMissing = [&](const std::string& id) {
    bool of_this = false;
    index_.find(id, [&](const Job& job) { of_this = of_batch.contains(&job); });
    return !of_this && !isKnown(id, ended);
  };
  const auto lacksOne = [&](const Job* job) {
    return std::any_of(job->task.depends_on.begin(), job->task.depends_on.end(), isMissing);
  };
  for (bool changed = true; std::exchange(changed, false);) {
    for (Group& group : groups) {
      if (std::none_of(group.jobs.begin(), group.jobs.end(), lacksOne)) continue;
      for (const Job* const job : group.jobs) of_batch.erase(job);
      refuse(group, SubmitStatus::UnknownDependency, tasks);
      changed = true;
    }
  }

  for (Group& group : groups) {
    for (Job* const job : group.jobs) linkDependencies(*job, ended);
  }
  std::vector<SubmitStatus> statuses(tasks.size());
  for (Group& group : groups) {
    for (const std::size_t i : group.tasks) statuses[i] = group.status;
    if (group.jobs.empty()) continue;
    for (std::size_t n = 0; logsAccepted() && n < group.jobs.size(); ++n) {
      const Task& task = group.jobs[n]->task;
      to_log.push_back({group.session->worker, task.session_id, task.id});
    }
    deliver(group);
  }
  lock.unlock();
  discardRefused(groups);
  for (const Accepted& one : to_log) logAccepted(*one.worker, one.session_id, one.task_id);
  return statuses;
}

void Core::prepare(Group& group, std::vector<Task>& tasks) {
  const auto count = static_cast<std::uint32_t>(group.tasks.size());
  if (stopping_.load(std::memory_order_relaxed)) {
    group.status = SubmitStatus::Stopped;
    return;
  }
  group.session = sessionOf(group.visit, Entry::Ordinary);
  if (group.session == nullptr) {
    group.status = SubmitStatus::TooManySessions;
    return;
  }
  Worker& worker = *group.session->worker;
  if (!worker.admit(*group.session, count)) {
    group.status = SubmitStatus::QueueFull;
    return;
  }
  if (!worker.reserve(count)) {
    worker.turnAway(*group.session, count);
    group.status = SubmitStatus::QueueFull;
    return;
  }
  const Instant now = Clock::now();
  idle_time_.noteUse(*group.session, now);
  for (const std::size_t i : group.tasks) {
    Job* const job = JobShelf::take();
    job->take(std::move(tasks[i]));
    job->session = group.session;
    job->worker = &worker;
    stamp(*job, now);
    if (job->is_named && !index_.add(*job)) {
      takeBack(tasks[i], *job);
      refuse(group, SubmitStatus::DuplicateId, tasks);
      return;
    }
    group.jobs.push_back(job);
  }
}

// Takes back what prepare() did; the tasks go back to their places.
void Core::refuse(Group& group, SubmitStatus status, std::vector<Task>& tasks) {
  for (std::size_t n = 0; n < group.jobs.size(); ++n) {
    Job& job = *group.jobs[n];
    std::any payload = std::move(job.task.payload);
    Task& task = tasks[group.tasks[n]];
    const auto created_at = task.created_at;
    task = Task(job.task);  // a copy: somebody may be looking the job up
    task.created_at = created_at;
    task.payload = std::move(payload);
  }
  const auto count = static_cast<std::uint32_t>(group.tasks.size());
  group.session->worker->giveBack(count);
  group.session->worker->turnAway(*group.session, count);
  group.refused = std::exchange(group.jobs, {});
  group.status = status;
}

// Without an end: whoever finds one until then sees a task that waits. Others that were waiting to
// be let go of may go with them, and their destructors may call the dispatcher.
void Core::discardRefused(std::deque<Group>& groups) {
  Spent spent;
  std::vector<std::any> none;
  bool any = false;
  for (Group& group : groups) {
    for (Job* const job : group.refused) {
      job->link = nullptr;
      discard(job, none, spent);
      any = true;
    }
  }
  if (!any) return;
  // Somebody may wait for one of them, and shall look again.
  { const std::lock_guard lock(ends_mutex_); }
  ends_.notify_all();
}

void Core::deliver(Group& group) {
  for (std::size_t n = 1; n < group.jobs.size(); ++n) group.jobs[n]->link = group.jobs[n - 1];
  group.session->worker->deliver(*group.jobs.back(), *group.jobs.front());
}

}  // namespace nimbus::dispatch
