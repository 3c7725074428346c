#pragma once

#include "base/task.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>

#include <utility>

namespace nimbus::gateway {

// What the task returns, once it and all that it began have ended.
template <typename T>
T run(Task<T> task) {
  boost::asio::io_context io;
  auto result = boost::asio::co_spawn(io, std::move(task), boost::asio::use_future);
  io.run();
  return result.get();
}

}  // namespace nimbus::gateway
