#pragma once
// Server-sent events, from bytes as they come.

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace nimbus::client {

struct Event {
  std::string type;  // empty: a message
  std::string id;
  std::string data;
};

class EventReader {
 public:
  // False ends the reading.
  using Sink = std::function<bool(const Event&)>;

  // A line, or an event, that is longer than this is cut off: the sender is no friend.
  static constexpr std::size_t kMaxBytes = 16UL * 1024 * 1024;

  // Hands every event that `bytes` complete to `sink`; false once the sink wants no more, or too
  // much came without an end.
  bool read(std::string_view bytes, const Sink& sink);

 private:
  bool takeLine(std::string_view line, const Sink& sink);

  std::string rest_;  // a line that is not complete
  Event event_;
  bool has_data_ = false;
};

}  // namespace nimbus::client
