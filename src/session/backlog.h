#pragma once
// What waits in a session that has asynchronous calls, as its owner knows it.

#include "base/clock.h"
#include "session/call.h"
#include "session/invocation_record.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::session {

// So many calls of a line are in memory.
inline constexpr std::size_t kWindow = 16;
// So many that were given up or have failed are kept for a replay; then the oldest go.
inline constexpr std::size_t kMostAside = 1'000;

struct Backlog {
  struct Item {
    std::string id;
    QueuedRequest request;
    InvocationRecord record;
    Timestamp not_before;  // the epoch: at once
  };

  // A call whose caller waits. It goes after all asynchronous calls of lower numbers.
  struct Overtaken {
    std::uint64_t after = 0;
    CallPtr call;
  };

  struct Current {
    std::string id;
    CallPtr call;
    InvocationRecord record;
  };

  std::deque<Item> window;          // the first of the line, as many as are kept in memory
  std::size_t in_line = 0;          // in the store, with those of the window
  std::size_t scheduled = 0;        // in the store, not due yet
  std::size_t aside = 0;            // in the store, given up or failed
  std::size_t to_send = 0;          // in the store: what its calls have sent
  std::deque<Overtaken> overtaken;  // in order
  std::optional<Current> current;   // that runs now
  // Items that went while the window was being read.
  bool is_reading = false;
  bool is_dropping = false;  // the oldest of those aside are being removed
  std::vector<std::string> gone_meanwhile;

  // Adds an item that is the last of the line now.
  void add(Item item);
  void remove(const std::string& request_id);

  // Whether a call that comes now must wait for others that have their numbers already.
  bool isBusy() const { return in_line > 0 || !overtaken.empty(); }
  std::size_t waiting() const { return in_line + overtaken.size(); }
};

}  // namespace nimbus::session
