#pragma once
// A thread with its event loop, and the functions that live there.

#include "base/one_shot.h"
#include "base/result.h"
#include "base/task.h"
#include "session/calls.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/co_spawn.hpp>

#include <exception>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

namespace nimbus::session {

struct Calls::Shard {
  boost::asio::any_io_executor executor;
  std::unordered_map<std::string, std::unique_ptr<FunctionHost>> hosts;
};

// Runs a task on another shard. Not by awaiting co_spawn: that hands a cancellation on to the other
// thread, where it may meet the end of the task.
template <typename T>
Task<Result<T>> on(boost::asio::any_io_executor executor, Task<Result<T>> task) {
  const auto done = std::make_shared<OneShot<Result<T>>>();
  boost::asio::co_spawn(
      executor, std::move(task),
      [done](const std::exception_ptr&, Result<T> result) { done->set(std::move(result)); });
  co_return co_await done->wait(done);
}

}  // namespace nimbus::session
