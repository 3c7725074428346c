#include "base/wake_together.h"

#include "base/assert.h"

#include <algorithm>

namespace nimbus {
namespace {

thread_local WakeTogether* current = nullptr;

}  // namespace

WakeTogether::WakeTogether() {
  NIMBUS_ASSERT(current == nullptr, "whoever runs many tasks in a row does not run another's");
  current = this;
}

WakeTogether::~WakeTogether() {
  current = nullptr;
  for (Sleeper* const sleeper : sleepers_) sleeper->wake();
}

void WakeTogether::wake(Sleeper& sleeper) {
  if (current == nullptr) return sleeper.wake();
  std::vector<Sleeper*>& sleepers = current->sleepers_;
  if (std::find(sleepers.begin(), sleepers.end(), &sleeper) == sleepers.end()) {
    sleepers.push_back(&sleeper);
  }
}

}  // namespace nimbus
