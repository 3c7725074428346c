#include "session/gate.h"

#include <utility>

namespace nimbus::session {

Task<Result<>> Gate::drive() {
  const GatePtr self = shared_from_this();
  const Result<> result = co_await commit_.durable();
  std::vector<std::shared_ptr<Waiter>> waiters;
  {
    const std::lock_guard lock(mutex_);
    result_ = result;
    state_.store(result ? State::Open : State::Failed, std::memory_order_release);
    waiters = std::exchange(waiters_, {});
  }
  const ResumeTogether together;
  for (const std::shared_ptr<Waiter>& waiter : waiters) waiter->set(result);
  co_return result;
}

Task<Result<>> Gate::wait() {
  const auto waiter = std::make_shared<Waiter>();
  {
    const std::lock_guard lock(mutex_);
    if (result_) co_return *result_;
    waiters_.push_back(waiter);
  }
  co_return co_await waiter->wait(waiter);
}

}  // namespace nimbus::session
