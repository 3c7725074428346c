#include "session/function_log.h"

#include <algorithm>
#include <utility>

namespace nimbus::session {

FunctionLog::Follower::Follower(std::shared_ptr<FunctionLog> log, std::function<void()> wake)
    : log_(std::move(log)), wake_(std::move(wake)) {
  const std::lock_guard lock(log_->mutex_);
  log_->followers_.push_back(this);
}

FunctionLog::Follower::~Follower() {
  const std::lock_guard lock(log_->mutex_);
  std::erase(log_->followers_, this);
}

bool FunctionLog::Follower::wait(std::uint64_t after) {
  const std::lock_guard lock(log_->mutex_);
  if (log_->is_closed_ || log_->next_ > after + 1) return false;
  is_waiting_ = true;
  return true;
}

// With the lock held, so that no follower goes meanwhile.
void FunctionLog::wakeFollowers() {
  for (Follower* const follower : followers_) {
    if (std::exchange(follower->is_waiting_, false)) follower->wake_();
  }
}

void FunctionLog::add(Timestamp time, std::string_view stream, std::string_view text,
                      std::string_view request_id) {
  const std::lock_guard lock(mutex_);
  if (is_closed_) return;
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
  wakeFollowers();
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
  // Numbers have no gaps.
  const std::uint64_t first = lines_.empty() ? next_ : lines_.front().number;
  const std::size_t skipped = after >= first ? static_cast<std::size_t>(after - first + 1) : 0;
  for (std::size_t i = skipped; i < lines_.size() && found.size() < limit; ++i) {
    found.push_back(lines_[i]);
  }
  return found;
}

std::uint64_t FunctionLog::lastNumber() const {
  const std::lock_guard lock(mutex_);
  return next_ - 1;
}

void FunctionLog::close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  wakeFollowers();
}

bool FunctionLog::isClosed() const {
  const std::lock_guard lock(mutex_);
  return is_closed_;
}

}  // namespace nimbus::session
