#pragma once
// A session in the memory of the node that owns it.

#include "base/steady_clock.h"
#include "session/gate.h"
#include "session/pool.h"
#include "session/session_record.h"
#include "state/space.h"
#include "store/types.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace nimbus::session {

// What the owner knows to be true, because the store refuses everyone else: every commit requires
// the version that the owner gave the session's record last, and whoever takes a session over gives
// it another; see session_record.h.
struct Activation {
  Activation(std::string its_key, store::Partition its_partition)
      : key(std::move(its_key)), partition(std::move(its_partition)) {}

  const std::string key;
  const store::Partition partition;
  SessionRecord record;               // last_access and instance are newer than what is stored
  store::Version record_version = 0;  // after the newest commit that was begun
  Timestamp recorded_at;              // last_access as it was written last
  std::uint64_t last_number = 0;      // given to a call
  std::uint64_t reserve_next = 16;    // how many numbers the next reservation takes
  state::Space space;
  const std::shared_ptr<Chain> commits = std::make_shared<Chain>();
  GatePtr newest;            // of the newest commit
  Pool::MemberPtr instance;  // that it sticks to
  SteadyTime last_use;
  std::optional<Route> came_by;  // how it got into memory; until its first call has run

  // A commit was lost: what is here is not what is stored.
  bool isDoomed() const { return commits->isLost(); }
  bool isDurable() const { return newest->state() == Gate::State::Open; }

  void bindTo(const Pool::MemberPtr& member) {
    if (instance == member) return;
    unbind();
    instance = member;
    if (member) ++member->bound;
  }
  void unbind() {
    if (instance) --instance->bound;
    instance.reset();
  }
};

using ActivationPtr = std::shared_ptr<Activation>;

}  // namespace nimbus::session
