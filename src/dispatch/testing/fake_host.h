#pragma once
// A host for a worker that never runs: for tests of what needs a worker to point to.

#include "dispatch/session.h"
#include "dispatch/worker.h"

#include <memory>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

class FakeHost final : public WorkerHost {
 public:
  const DispatcherConfig& config() const override { return config_; }
  std::optional<TaskOutcome> call(Job&) override { return TaskOutcome::ok(); }
  bool listens() const override { return false; }
  void concluded(Job&, bool) override {}
  void discard(Job*, std::vector<std::any>&, Spent&) override {}
  void deadlineAdded(Instant) override {}
  void emptied() override {}
  void log(const LogEvent&) const override {}

 private:
  DispatcherConfig config_;
};

// Sessions on a worker that never runs.
class FakeSessions {
 public:
  Session& make(std::string_view name) {
    const auto number = static_cast<SessionNumber>(sessions_.size() + 1);
    return *sessions_.emplace_back(std::make_unique<Session>(number, name, 0, worker_));
  }

 private:
  FakeHost host_;
  Worker worker_{host_, 0};
  std::vector<std::unique_ptr<Session>> sessions_;
};

}  // namespace nimbus::dispatch
