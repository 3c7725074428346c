#include "session/function_log.h"

namespace nimbus::session {

void FunctionLog::add(Timestamp time, std::string_view stream, std::string_view text,
                      std::string_view request_id) {
  const std::lock_guard lock(mutex_);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, std::min(end, kLineBytes));
    lines_.push_back(
        {next_++, time, std::string(stream), std::string(line), std::string(request_id)});
    bytes_ += line.size();
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (lines_.size() > kLines || bytes_ > kBytes) {
    bytes_ -= lines_.front().line.size();
    lines_.pop_front();
  }
}

std::vector<LogLine> FunctionLog::newest(std::size_t limit, std::uint64_t before) const {
  const std::lock_guard lock(mutex_);
  std::vector<LogLine> found;
  for (auto line = lines_.rbegin(); line != lines_.rend() && found.size() < limit; ++line) {
    if (before == 0 || line->number < before) found.push_back(*line);
  }
  return found;
}

std::vector<LogLine> FunctionLog::after(std::uint64_t after, std::size_t limit) const {
  const std::lock_guard lock(mutex_);
  std::vector<LogLine> found;
  for (const LogLine& line : lines_) {
    if (line.number > after && found.size() < limit) found.push_back(line);
  }
  return found;
}

}  // namespace nimbus::session
