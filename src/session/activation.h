#pragma once
// A session in the memory of the node that owns it.

#include "base/steady_clock.h"
#include "session/backlog.h"
#include "session/gate.h"
#include "session/pool.h"
#include "session/session_record.h"
#include "state/space.h"
#include "store/types.h"

#include <boost/intrusive/list.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace nimbus::session {

// What the owner knows to be true, because the store refuses everyone else: every commit requires
// the version that the owner gave the session's record last, and whoever takes a session over gives
// it another; see session_record.h.
struct Activation : boost::intrusive::list_base_hook<>, std::enable_shared_from_this<Activation> {
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
  std::size_t counted_bytes = 0;     // what it was last thought to take
  std::optional<Route> came_by;      // how it got into memory; until its first call has run
  std::uint64_t term = 0;            // of this node's lease, in which it was claimed
  bool must_be_recorded = false;     // its record says something that is not stored
  std::unique_ptr<Backlog> backlog;  // null: it has no asynchronous calls

  Backlog& itsBacklog() {
    if (!backlog) backlog = std::make_unique<Backlog>();
    return *backlog;
  }

  // A commit was lost: what is here is not what is stored.
  bool isDoomed() const { return commits->isLost(); }
  bool isDurable() const { return newest->state() == Gate::State::Open; }

  // Bytes of memory, about.
  std::size_t bytes() const {
    constexpr std::size_t kItself = 1400;  // with what hangs on it, measured
    constexpr std::size_t kEntry = 160;
    return kItself + 2 * key.size() + space.bytes() + kEntry * space.entries().size();
  }

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
