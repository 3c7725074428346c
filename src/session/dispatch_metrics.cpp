#include "session/dispatch_metrics.h"

#include <chrono>

namespace nimbus::session {
namespace {

using dispatch::WorkerStats;
using Kind = Metrics::Kind;

double seconds(dispatch::Duration duration) {
  return std::chrono::duration<double>(duration).count();
}

}  // namespace

void exposeDispatch(Metrics::Scrape& scrape, const dispatch::DispatcherStats& stats) {
  const auto total = [&](Kind kind, const char* name, const char* help, auto value) {
    scrape.family(kind, name, help);
    scrape.sample({}, static_cast<double>(value));
  };
  total(Kind::Counter, "nimbus_dispatch_submitted_total", "Tasks that were accepted.",
        stats.total_submitted);
  total(Kind::Counter, "nimbus_dispatch_completed_total", "Tasks that ran to their end.",
        stats.total_completed);
  total(Kind::Counter, "nimbus_dispatch_failed_total", "Tasks that failed.", stats.total_failed);
  total(Kind::Counter, "nimbus_dispatch_cancelled_total", "Tasks that were cancelled.",
        stats.total_cancelled);
  total(Kind::Counter, "nimbus_dispatch_retries_total", "Attempts after the first.",
        stats.total_retries);
  total(Kind::Gauge, "nimbus_dispatch_active_sessions", "Sessions with work, or lately with some.",
        stats.active_sessions);
  total(Kind::Gauge, "nimbus_dispatch_queued_tasks", "Tasks that wait.", stats.queued_tasks);

  const auto perWorker = [&](Kind kind, const char* name, const char* help, const auto& read) {
    scrape.family(kind, name, help);
    for (const WorkerStats& worker : stats.workers) {
      scrape.sample({{"worker", worker.worker_id}}, static_cast<double>(read(worker)));
    }
  };
  perWorker(Kind::Counter, "nimbus_dispatch_worker_processed_total", "Tasks that ended there.",
            [](const WorkerStats& worker) { return worker.tasks_processed; });
  perWorker(Kind::Counter, "nimbus_dispatch_worker_failed_total", "Tasks that failed there.",
            [](const WorkerStats& worker) { return worker.tasks_failed; });
  perWorker(Kind::Gauge, "nimbus_dispatch_worker_sessions", "Active sessions there.",
            [](const WorkerStats& worker) { return worker.session_count; });
  perWorker(Kind::Gauge, "nimbus_dispatch_worker_queued_tasks", "Tasks that wait there.",
            [](const WorkerStats& worker) { return worker.queue_length; });
  perWorker(Kind::Gauge, "nimbus_dispatch_worker_running_tasks", "Tasks that run there.",
            [](const WorkerStats& worker) { return worker.running_tasks; });
  perWorker(Kind::Gauge, "nimbus_dispatch_worker_queue_age_seconds",
            "How long the task that is next has waited.",
            [](const WorkerStats& worker) { return seconds(worker.queue_age); });
  perWorker(Kind::Gauge, "nimbus_dispatch_worker_task_duration_seconds",
            "How long a task takes, on average since the start.",
            [](const WorkerStats& worker) { return seconds(worker.avg_task_duration); });
}

}  // namespace nimbus::session
