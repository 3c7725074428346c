#include "client/event_reader.h"

#include <utility>

namespace nimbus::client {

bool EventReader::read(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    rest_ += bytes.substr(0, end);
    if (rest_.size() + event_.data.size() > kMaxBytes) return false;
    if (end == bytes.npos) return true;
    bytes.remove_prefix(end + 1);
    if (rest_.ends_with('\r')) rest_.pop_back();
    const std::string line = std::exchange(rest_, {});
    if (!takeLine(line, sink)) return false;
  }
  return true;
}

bool EventReader::takeLine(std::string_view line, const Sink& sink) {
  if (line.empty()) {
    const bool complete = std::exchange(has_data_, false);
    const Event event = std::exchange(event_, {});
    return !complete || sink(event);
  }
  const std::size_t colon = line.find(':');
  const std::string_view field = line.substr(0, colon);
  std::string_view value = colon == line.npos ? std::string_view() : line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (field == "data") {
    if (has_data_) event_.data += '\n';
    event_.data += value;
    has_data_ = true;
  } else if (field == "event") {
    event_.type = value;
  } else if (field == "id") {
    event_.id = value;
  }
  return true;
}

}  // namespace nimbus::client
