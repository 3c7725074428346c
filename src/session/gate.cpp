#include "session/gate.h"

#include "base/log.h"

#include <utility>

namespace nimbus::session {

Error Chain::lose(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!why_) why_ = why;
  lost_.store(true, std::memory_order_release);
  return *why_;
}

void Gate::settle(Call& call, const Result<>& durable) {
  if (!durable) {
    const Error& why = durable.error();
    log::warn("what a call did could not be made durable",
              {{"function", call.function->id},
               {"session", call.session_key.value_or("")},
               {"request_id", call.request_id},
               {"code", codeName(why.code())},
               {"error", why.message()}});
    // A stale owner finds out by a version; callers know it by one name.
    const bool stale = why.code() == Code::VersionConflict;
    call.outcome.error =
        stale ? Error(Code::Fenced, "the session was changed by another owner") : why;
    call.outcome.failure.reset();
    call.outcome.seq = 0;  // nothing says that its number is not given again
  }
  call.settle();
}

void Gate::settle(CallPtr call) {
  {
    const std::lock_guard lock(mutex_);
    if (!result_) {
      waiting_.push_back(std::move(call));
      return;
    }
  }
  settle(*call, *result_);  // which changes no more
}

void Gate::onEnd(const Result<>& ended) {
  const Result<> durable = ended ? ended : Result<>(chain_->lose(ended.error()));
  decltype(waiting_) waiting;
  {
    const std::lock_guard lock(mutex_);
    result_ = durable;
    state_.store(durable ? State::Open : State::Failed, std::memory_order_release);
    waiting = std::move(waiting_);
  }
  for (const CallPtr& call : waiting) settle(*call, durable);
}

}  // namespace nimbus::session
