#include "session/backlog.h"

#include <utility>

namespace nimbus::session {

void Backlog::add(Item item) {
  const std::size_t known = window.size() + (current ? 1 : 0);
  ++in_line;
  const bool is_next = known + 1 == in_line && !is_reading;
  if (is_next && window.size() < kWindow) window.push_back(std::move(item));
}

void Backlog::remove(const std::string& request_id) {
  --in_line;
  std::erase_if(window, [&](const Item& item) { return item.id == request_id; });
  if (is_reading) gone_meanwhile.push_back(request_id);
}

}  // namespace nimbus::session
