#pragma once
// Owns the background work of an object, so that nothing is detached: whoever starts a task also
// waits for its end.

#include "base/task.h"

#include <boost/asio/any_io_executor.hpp>

#include <cstddef>
#include <memory>
#include <string>

namespace nimbus {

// Single-threaded: every member is called on the group's executor, and tasks run there.
class TaskGroup {
 public:
  // `owner` names the group in the log when one of its tasks ends with an exception.
  TaskGroup(boost::asio::any_io_executor executor, std::string owner);

  // Every task must have ended: join() first.
  ~TaskGroup();

  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts `task`. An exception that leaves it is logged and counted, never rethrown. A task added
  // after cancel() is cancelled at its first wait.
  void add(Task<> task);

  // Asks every task to end: its pending wait fails with operation_aborted.
  void cancel();

  // Returns when no task is left. Tasks that were not told to end are waited for, however long.
  Task<> join();

  std::size_t running() const;
  std::size_t failed() const;

 private:
  struct State;
  // Shared with the completion handlers of the tasks, which may run after join() was resumed.
  std::shared_ptr<State> state_;
};

}  // namespace nimbus
