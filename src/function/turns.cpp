#include "function/turns.h"

namespace nimbus::function {

Turns::Turn::Turn(Turns& turns) : turns_(&turns) {
  const std::lock_guard lock(turns.mutex_);
  place_ = turns.line_.emplace(turns.line_.end());
  if (place_ == turns.line_.begin()) place_->set();
}

Turns::Turn::~Turn() {
  if (turns_ == nullptr) return;
  const std::lock_guard lock(turns_->mutex_);
  const bool was_first = place_ == turns_->line_.begin();
  turns_->line_.erase(place_);
  if (was_first && !turns_->line_.empty()) turns_->line_.front().set();
}

Task<Turns::Turn> Turns::take() {
  Turn turn(*this);
  OneShotEvent& has_come = *turn.place_;
  if (!has_come.isSet()) co_await has_come.wait();
  co_return turn;
}

}  // namespace nimbus::function
