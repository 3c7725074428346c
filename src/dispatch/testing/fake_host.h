#pragma once
// A host for a worker that never runs: for tests of what needs a worker to point to.

#include "dispatch/session.h"
#include "dispatch/worker.h"

#include <new>
#include <string_view>
#include <vector>

namespace nimbus::dispatch {

class FakeHost final : public WorkerHost {
 public:
  const DispatcherConfig& config() const override { return config_; }
  std::optional<TaskOutcome> call(Job&) override { return TaskOutcome::ok(); }
  bool listens() const override { return false; }
  void concluded(Job&, bool) override {}
  void discard(Job*, Spent&) override {}
  void deadlineAdded(Instant) override {}
  void emptied() override {}
  void log(const LogEvent&) const override {}

 private:
  DispatcherConfig config_;
};

// Sessions on a worker that never runs, in memory of their own.
class FakeSessions {
 public:
  ~FakeSessions() {
    for (Session* const session : sessions_) {
      session->~Session();
      ::operator delete(session);
    }
  }

  Session& make(std::string_view name) {
    void* const memory = ::operator new(Session::sizeFor(name));
    return *sessions_.emplace_back(Session::make(memory, name, 0, worker_));
  }

 private:
  FakeHost host_;
  Worker worker_{host_, 0};
  std::vector<Session*> sessions_;
};

}  // namespace nimbus::dispatch
