// How a Connection notices that its client leaves while a handler runs.
//
// A read is the only way to see the end of a connection behind what a client may have sent ahead,
// and a read per request would be a system call per request. So only handlers that are still
// running when the sweep comes by are watched. What is read is kept for the requests to come, in
// the room that is left behind the present one; when that is full the client is no longer watched,
// and waits like any other that sends faster than it is answered.
#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace nimbus::http {

namespace asio = boost::asio;
using boost::system::error_code;

// Where finishRequest() looks for what came after the present request.
Buffer& Connection::ahead() {
  return work_->body_in ? *work_->body_in : *work_->in;
}

void Connection::watchWhileHandling() {
  if (is_watching_ || has_left_ || is_cut_off_ || ahead().spaceSize() == 0) return;
  is_watching_ = true;
  auto read = [this](const error_code& failure, std::size_t count) { onWatched(failure, count); };
  const auto space = asio::buffer(ahead().space(), ahead().spaceSize());
  if (tls_) {
    tls_->async_read_some(space, std::move(read));
  } else {
    socket_.async_read_some(space, std::move(read));
  }
}

void Connection::onWatched(const error_code& failure, std::size_t count) {
  is_watching_ = false;
  ahead().produced(count);
  if (unwatched_ != nullptr) {
    unwatched_->cancel();
  } else if (!failure) {
    watchWhileHandling();
  } else if (failure != asio::error::operation_aborted) {
    has_left_ = must_close_ = true;
    cancel_.emit(asio::cancellation_type::terminal);
  }
}

// Returns when nothing is read any more. What is left to do uses the watch's memory again, so this
// must not be skipped: the task's cancellation is off meanwhile.
Task<> Connection::endWatch() {
  asio::steady_timer unwatched(co_await asio::this_coro::executor, Time::max());
  unwatched_ = &unwatched;
  error_code ignored;
  socket_.cancel(ignored);
  while (is_watching_) co_await unwatched.async_wait(asio::as_tuple(asio::use_awaitable));
  unwatched_ = nullptr;
}

}  // namespace nimbus::http
