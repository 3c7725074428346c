#pragma once
// Wakes a task on its own executor, whoever calls.

#include "base/task.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>

namespace nimbus::gateway {

class Bell : public std::enable_shared_from_this<Bell> {
 public:
  explicit Bell(const boost::asio::any_io_executor& executor)
      : timer_(executor, boost::asio::steady_timer::time_point::max()) {}

  // From any thread.
  void ring() {
    boost::asio::post(timer_.get_executor(), [self = shared_from_this()] {
      self->has_rung_ = true;
      self->timer_.cancel();
    });
  }
  // On the executor.
  Task<> wait() {
    if (!has_rung_) {
      co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
    }
    has_rung_ = false;
  }

 private:
  boost::asio::steady_timer timer_;
  bool has_rung_ = false;
};

}  // namespace nimbus::gateway
