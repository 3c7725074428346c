#include "base/together.h"

#include "base/one_shot.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>

#include <cstddef>
#include <exception>
#include <memory>
#include <utility>

namespace nimbus {

Task<> together(std::vector<Task<>> tasks) {
  struct Gathering {
    std::size_t running = 0;
    std::exception_ptr thrown;
    OneShotEvent ended;
  };
  if (tasks.empty()) co_return;
  const auto gathering = std::make_shared<Gathering>();
  gathering->running = tasks.size();
  const auto executor = co_await boost::asio::this_coro::executor;
  for (Task<>& task : tasks) {
    boost::asio::co_spawn(executor, std::move(task), [gathering](const std::exception_ptr& thrown) {
      if (thrown && !gathering->thrown) gathering->thrown = thrown;
      if (--gathering->running == 0) gathering->ended.set();
    });
  }
  if (!gathering->ended.isSet()) co_await gathering->ended.wait();
  if (gathering->thrown) std::rethrow_exception(gathering->thrown);
}

}  // namespace nimbus
