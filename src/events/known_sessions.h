#pragma once
// Sessions as the last append of this process left them.
//
// Every change of a session writes its clock. So a commit that requires the clock to have the
// version that it had needs no look at the session before: if it is applied, all that was known
// still held.

#include "events/open_session.h"

#include <cstddef>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

namespace nimbus::events {

// Any thread.
class KnownSessions {
 public:
  static constexpr std::size_t kMost = 20'000;

  // Takes it out: whoever has it puts it back as it has become.
  std::optional<Session> take(const std::string& partition);
  void put(const std::string& partition, Session session);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, Session> sessions_;
};

}  // namespace nimbus::events
