#pragma once
// A host for a worker that never runs: for tests of what needs a worker to point to.

#include "dispatch/worker.h"

namespace nimbus::dispatch {

class FakeHost final : public WorkerHost {
 public:
  const DispatcherConfig& config() const override { return config_; }
  std::optional<TaskOutcome> call(Job&) override { return TaskOutcome::ok(); }
  bool listens() const override { return false; }
  void concluded(Job&, bool) override {}
  void discard(Job*) override {}
  void deadlineAdded(Instant) override {}
  void emptied() override {}
  void log(const LogEvent&) const override {}

 private:
  DispatcherConfig config_;
};

}  // namespace nimbus::dispatch
