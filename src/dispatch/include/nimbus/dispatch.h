#pragma once
/// @file
/// @mainpage
/// Runs tasks in the strict order of their session, on a fixed set of workers, at millions of tasks
/// a second.
///
///     nimbus::DispatcherConfig config;
///     config.pool_size = 4;
///
///     nimbus::Dispatcher dispatcher(config, [](const nimbus::Task& task, std::stop_token) {
///       return nimbus::TaskOutcome::ok(task.payload);
///     });
///     dispatcher.submit({.id = "task-1", .session_id = "alice", .payload = std::string("hi")});
///
/// What it promises
/// ----------------
/// - **Order.** Tasks of one session start in the order in which they were accepted, each after the
///   one before it has ended: with retries, timeouts, throws, cancellations and resizes too. If one
///   submit returned before another began, it comes first.
/// - **Affinity.** A session stays with one worker while it has work, and for
///   `session_idle_time` after. Then it is forgotten and costs nothing.
/// - **Fairness.** A worker serves its ready sessions in turns (`quantum_tasks`, `quantum_time`): a
///   session with a hundred thousand tasks delays another's single task by one turn.
/// - **Nothing is lost.** What was accepted ends as done, failed or cancelled, once, or is handed
///   back by shutdown().
/// - **Bounded.** `queue_size`, `session_queue_size` and `max_sessions` bound what waits; `on_full`
///   says what a submit does then.
///
/// What it does not promise
/// ------------------------
/// - Nothing outlives the process.
/// - Threads cannot be killed. A handler that ignores its stop_token holds its session up until it
///   returns; the worker serves its other sessions on another thread meanwhile.
/// - Order between sessions, except through `depends_on`.
///
/// Link with `nimbus::dispatch` (CMake: `find_package(nimbus)`). docs/dispatch.md has worked
/// examples.

#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/config.h>
#include <nimbus/dispatch/dispatcher.h>
#include <nimbus/dispatch/stats.h>
#include <nimbus/dispatch/task.h>

namespace nimbus {

using dispatch::Async;
using dispatch::Dispatcher;
using dispatch::DispatcherConfig;
using dispatch::DispatcherStats;
using dispatch::LogEvent;
using dispatch::LogLevel;
using dispatch::OnFull;
using dispatch::Placement;
using dispatch::RetryPolicy;
using dispatch::SessionStats;
using dispatch::ShutdownReport;
using dispatch::Signal;
using dispatch::SubmitStatus;
using dispatch::Task;
using dispatch::TaskError;
using dispatch::TaskOutcome;
using dispatch::TaskResult;
using dispatch::TaskStatus;
using dispatch::toString;
using dispatch::WorkerStats;

}  // namespace nimbus
