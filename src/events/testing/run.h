#pragma once
// Tasks, run to their end.

#include "base/task.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>

#include <exception>
#include <optional>
#include <utility>

namespace nimbus::events {

template <typename T>
T run(Task<T> task) {
  boost::asio::io_context io;
  std::optional<T> result;
  boost::asio::co_spawn(io, std::move(task), [&](const std::exception_ptr& thrown, T value) {
    if (thrown) std::rethrow_exception(thrown);
    result.emplace(std::move(value));
  });
  io.run();
  return *std::move(result);
}

}  // namespace nimbus::events
