#include "session/gate.h"

#include "base/log.h"

#include <utility>

namespace nimbus::session {

namespace {

// A stale owner finds out by a version: of the session's record, or of what the new owner has
// written since.
bool tellsOfAnotherOwner(const Error& why) {
  return why.code() == Code::VersionConflict ||
         (why.code() == Code::Conflict && why.field("current_version", -1) >= 0);
}

}  // namespace

Error Chain::lose(const Error& why) {
  const std::lock_guard lock(mutex_);
  if (!why_) why_ = why;
  lost_.store(true, std::memory_order_release);
  return *why_;
}

bool Chain::isLostToAnother() {
  const std::lock_guard lock(mutex_);
  return why_ && tellsOfAnotherOwner(*why_);
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
    call.outcome.error = tellsOfAnotherOwner(why)
                             ? Error(Code::Fenced, "the session was changed by another owner")
                             : why;
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
