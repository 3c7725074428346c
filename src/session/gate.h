#pragma once
// The reply gate: whether a commit is durable, for everyone whose answer depends on it.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "store/commit.h"

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace nimbus::session {

// Any thread may use any member.
class Gate : public std::enable_shared_from_this<Gate> {
 public:
  enum class State : std::uint8_t { Closed, Open, Failed };

  explicit Gate(store::PendingCommit commit) : commit_(std::move(commit)) {}

  // Waits for the commit and lets the others know. Exactly one task does this.
  Task<Result<>> drive();

  // Waits until whoever drives knows.
  Task<Result<>> wait();

  State state() const { return state_.load(std::memory_order_acquire); }

 private:
  using Waiter = OneShot<Result<>>;

  store::PendingCommit commit_;
  std::atomic<State> state_ = State::Closed;
  std::mutex mutex_;
  std::optional<Result<>> result_;
  std::vector<std::shared_ptr<Waiter>> waiters_;
};

using GatePtr = std::shared_ptr<Gate>;

}  // namespace nimbus::session
