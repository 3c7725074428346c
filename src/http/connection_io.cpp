// How a Connection writes, waits and closes.
#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <array>

namespace nimbus::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

}  // namespace

void Connection::enter(Phase phase, std::chrono::milliseconds patience) {
  phase_ = phase;
  deadline_ = lane_->now() + patience;
}

void Connection::sweep(Time now) {
  // Whoever decides about a request, or answers it, has deadlines of their own.
  if (phase_ == Phase::Processing) return;
  if (phase_ == Phase::Handling) {
    watchWhileHandling();
    return;
  }
  if (phase_ == Phase::Streaming) {
    if (now - sent_ >= options().heartbeat) heartbeat();
    return;
  }
  error_code ignored;
  if (now < deadline_) {
    // A connection that was silent for a whole sweep is idle: others can use its buffers.
    const bool is_silent = phase_ == Phase::Idle && work_ && !tls_ &&
                           deadline_ - now < options().idle_timeout - std::chrono::seconds(1);
    if (is_silent && !is_parking_) {
      is_parking_ = true;
      socket_.cancel(ignored);
    }
    return;
  }
  is_expired_ = true;
  if (phase_ == Phase::Head || phase_ == Phase::Body) {
    socket_.cancel(ignored);  // the task wakes and answers 408
  } else {
    socket_.close(ignored);
  }
}

void Connection::drain() {
  error_code ignored;
  if (phase_ == Phase::Idle || phase_ == Phase::Handshake) {
    socket_.close(ignored);
  } else {
    endStream();
  }
}

void Connection::cutOff() {
  error_code ignored;
  is_cut_off_ = true;
  socket_.close(ignored);
  endStream();
  cancel_.emit(asio::cancellation_type::terminal);
}

void Connection::flushDirty() {
  // Only while a handler runs: otherwise the task itself is about to write, or is writing.
  if (phase_ == Phase::Handling && work_) flushNow();
}

// True: nothing is left to write, or nobody to write to.
bool Connection::flushNow() {
  if (tls_) return false;
  std::string& out = work_->out;
  while (written_ < out.size()) {
    error_code failure;
    written_ +=
        socket_.write_some(asio::buffer(out.data() + written_, out.size() - written_), failure);
    if (failure == asio::error::would_block) return false;
    if (failure) {
      is_broken_ = true;
      break;
    }
  }
  out.clear();
  written_ = 0;
  return true;
}

Task<bool> Connection::flush() {
  if (work_->out.empty() || flushNow()) co_return !is_broken_;
  co_return co_await flushSlowly();
}

Task<bool> Connection::flushSlowly() {
  const Phase before = phase_;
  do {
    enter(Phase::Writing, options().write_timeout);
    if (!tls_) {
      const auto [failure] = co_await socket_.async_wait(Socket::wait_write, kAwait);
      if (failure) is_broken_ = true;
      continue;
    }
    std::string& out = work_->out;
    const auto [failure, count] = co_await tls_->async_write_some(
        asio::buffer(out.data() + written_, out.size() - written_), kAwait);
    written_ += count;
    if (failure) is_broken_ = true;
    if (written_ == out.size()) {
      out.clear();
      written_ = 0;
      break;
    }
  } while (!is_broken_ && !flushNow());
  phase_ = before;
  co_return !is_broken_;
}

// Head and content in one write, without copying the content first.
Task<bool> Connection::writeLarge(std::string_view content) {
  const Phase before = phase_;
  std::string& out = work_->out;
  while (!is_broken_ && (written_ < out.size() || !content.empty())) {
    const std::array<asio::const_buffer, 2> parts = {
        asio::buffer(out.data() + written_, out.size() - written_), asio::buffer(content)};
    enter(Phase::Writing, options().write_timeout);
    const auto [failure, count] = tls_ ? co_await tls_->async_write_some(parts, kAwait)
                                       : co_await socket_.async_write_some(parts, kAwait);
    const std::size_t of_out = std::min(count, out.size() - written_);
    written_ += of_out;
    content.remove_prefix(count - of_out);
    if (failure) is_broken_ = true;
  }
  out.clear();
  written_ = 0;
  phase_ = before;
  co_return !is_broken_;
}

// The last answer must reach the client. Closing a socket that has unread bytes resets the
// connection, and a reset can overtake what we wrote: so we read on for a moment and throw it away.
Task<> Connection::close() {
  if (work_ && !work_->out.empty() && !is_broken_) co_await flush();
  if (is_broken_ || !socket_.is_open()) co_return;
  enter(Phase::Lingering, options().linger_timeout);
  error_code ignored;
  if (tls_) {
    co_await tls_->async_shutdown(kAwait);
  } else {
    socket_.shutdown(Socket::shutdown_send, ignored);
  }
  const bool has_unread = has_unread_ || (work_ && !work_->in->empty());
  while (has_unread && work_ && socket_.is_open()) {
    work_->in->clear();
    const auto [failure, count] = co_await socket_.async_read_some(
        asio::buffer(work_->in->space(), work_->in->spaceSize()), kAwait);
    if (failure) break;
  }
  socket_.close(ignored);
}

}  // namespace nimbus::http
