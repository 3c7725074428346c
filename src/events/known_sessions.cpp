#include "events/known_sessions.h"

#include <utility>

namespace nimbus::events {

std::optional<Session> KnownSessions::take(const std::string& partition) {
  const std::lock_guard lock(mutex_);
  auto node = sessions_.extract(partition);
  if (node.empty()) return std::nullopt;
  return std::move(node.mapped());
}

void KnownSessions::put(const std::string& partition, Session session) {
  const std::lock_guard lock(mutex_);
  if (sessions_.size() >= kMost) sessions_.erase(sessions_.begin());  // any: it is looked at again
  sessions_.insert_or_assign(partition, std::move(session));
}

}  // namespace nimbus::events
