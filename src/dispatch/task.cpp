#include <nimbus/dispatch/task.h>

namespace nimbus::dispatch {

std::string_view toString(SubmitStatus status) {
  switch (status) {
    case SubmitStatus::Accepted:
      return "accepted";
    case SubmitStatus::QueueFull:
      return "queue full";
    case SubmitStatus::TooManySessions:
      return "too many sessions";
    case SubmitStatus::Stopped:
      return "stopped";
    case SubmitStatus::DuplicateId:
      return "duplicate id";
    case SubmitStatus::UnknownDependency:
      return "unknown dependency";
    case SubmitStatus::DependencyCycle:
      return "dependency cycle";
  }
  return "?";
}

std::string_view toString(TaskStatus status) {
  switch (status) {
    case TaskStatus::Pending:
      return "pending";
    case TaskStatus::Running:
      return "running";
    case TaskStatus::Done:
      return "done";
    case TaskStatus::Failed:
      return "failed";
    case TaskStatus::Cancelled:
      return "cancelled";
    case TaskStatus::Unknown:
      return "unknown";
  }
  return "?";
}

std::string_view toString(TaskError::Code code) {
  switch (code) {
    case TaskError::Code::Failed:
      return "failed";
    case TaskError::Code::Threw:
      return "threw";
    case TaskError::Code::TimedOut:
      return "timed out";
    case TaskError::Code::Cancelled:
      return "cancelled";
    case TaskError::Code::DependencyFailed:
      return "dependency failed";
  }
  return "?";
}

}  // namespace nimbus::dispatch
