#pragma once
// The reply gate: holds answers back until the commit that they depend on is durable.

#include "base/result.h"
#include "session/call.h"
#include "store/commit.h"

#include <boost/container/small_vector.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>

namespace nimbus::session {

// Commits that build on one another: if one is lost, so are those after it, for the same reason.
// Any thread may use any member.
class Chain {
 public:
  bool isLost() const { return lost_.load(std::memory_order_acquire); }

  // One of them was; why the first was.
  Error lose(const Error& why);
  // Whether somebody else has changed what they build on.
  bool isLostToAnother();

 private:
  std::atomic<bool> lost_ = false;
  std::mutex mutex_;
  std::optional<Error> why_;  // guarded by mutex_
};

// Any thread may use any member.
class Gate final : public store::CommitListener {
 public:
  enum class State : std::uint8_t { Closed, Open, Failed };

  explicit Gate(std::shared_ptr<Chain> chain) : chain_(std::move(chain)) {}

  State state() const { return state_.load(std::memory_order_acquire); }

  // Settles the call when the commit is durable; fails it, whatever its outcome was, if the commit
  // was lost. At once if that is known.
  void settle(CallPtr call);

  void onEnd(const Result<>& ended) override;
  bool hasFailed() const override { return chain_->isLost(); }

 private:
  static void settle(Call& call, const Result<>& durable);

  const std::shared_ptr<Chain> chain_;
  std::atomic<State> state_ = State::Closed;
  std::mutex mutex_;
  std::optional<Result<>> result_;                      // guarded by mutex_
  boost::container::small_vector<CallPtr, 2> waiting_;  // guarded by mutex_
};

using GatePtr = std::shared_ptr<Gate>;

}  // namespace nimbus::session
