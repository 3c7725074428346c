#pragma once
// A commit under way, as its caller sees it.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "store/batch.h"

#include <memory>

namespace nimbus::store {

// Hears how a commit ended, on the thread that ended it: one of the backend's, or the caller's if
// it ended before commit() returned. Must not block.
class CommitListener {
 public:
  virtual ~CommitListener() = default;
  virtual void onEnd(const Result<>& durable) = 0;
  // Whether onEnd() was told of an error.
  virtual bool hasFailed() const = 0;
};

// The two moments of a commit, shared by the caller and the backend. The backend calls, from any
// thread, exactly one of
//   refuse(error)                      it was not applied
//   apply(results), then finish(...)   it was; finish says whether it became durable
class CommitState {
 public:
  explicit CommitState(std::shared_ptr<CommitListener> listener) : listener_(std::move(listener)) {}

  void refuse(const Error& error) {
    applied_.set(error);
    finish(error);
  }
  void apply(Applied applied) { applied_.set(std::move(applied)); }
  void finish(const Result<>& durable) {
    if (listener_) listener_->onEnd(durable);
    durable_.set(durable);
  }

 private:
  friend class PendingCommit;

  const std::shared_ptr<CommitListener> listener_;  // null: there is none
  OneShot<Result<Applied>> applied_;
  OneShot<Result<>> durable_;
};

// Dropping it does not undo the commit.
class PendingCommit {
 public:
  explicit PendingCommit(std::shared_ptr<CommitState> state) : state_(std::move(state)) {}

  // The results, as soon as they are known. Call at most once.
  Task<Result<Applied>> applied() { return state_->applied_.wait(state_); }

  // Whether it is durable. Call at most once.
  Task<Result<>> durable() { return state_->durable_.wait(state_); }

  // The results, once they are durable: for callers with nothing to do in between.
  Task<Result<Applied>> done() { return doneOf(*this); }

 private:
  static Task<Result<Applied>> doneOf(PendingCommit pending);

  std::shared_ptr<CommitState> state_;
};

}  // namespace nimbus::store
