#include "server/store_upkeep.h"

#include "base/log.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace nimbus::server {

namespace asio = boost::asio;

StoreUpkeep::StoreUpkeep(store::Store& store, asio::any_io_executor executor, Options options)
    : store_(store),
      executor_(std::move(executor)),
      options_(options),
      tasks_(executor_, "store upkeep") {}

Task<Result<>> StoreUpkeep::start() {
  auto writable = co_await store_.check();
  if (!writable) {
    // A full disk can still be read, and room may be made while we run.
    if (writable.error().code() != Code::InsufficientStorage) co_return std::move(writable).error();
    log::error("the disk is full; starting all the same, for reading",
               {{"reason", writable.error().message()}});
    const std::lock_guard lock(mutex_);
    last_error_ = std::move(writable).error();
  }
  tasks_.add(probe());
  tasks_.add(sweep());
  co_return Result<>();
}

Task<> StoreUpkeep::stop() {
  tasks_.cancel();
  co_await tasks_.join();
}

Task<> StoreUpkeep::pause(Millis time) {
  asio::steady_timer timer(executor_, time);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<> StoreUpkeep::probe() {
  while (true) {
    co_await pause(options_.probe_every);
    {
      const std::lock_guard lock(mutex_);
      asked_since_ = Steady::now();
    }
    auto answer = co_await store_.check();
    const std::lock_guard lock(mutex_);
    asked_since_.reset();
    if (answer) {
      last_error_.reset();
    } else {
      last_error_ = std::move(answer).error();
    }
  }
}

Task<> StoreUpkeep::sweep() {
  while (true) {
    co_await pause(options_.sweep_every);
    const auto swept = co_await store_.sweep(options_.sweep_budget);
    if (!swept) {
      log::warn("sweeping failed and will be tried again", {{"reason", swept.error().message()}});
    } else if (swept->removed > 0) {
      log::debug("swept what had expired", {{"removed", swept->removed}, {"more", swept->more}});
    }
  }
}

Task<Result<gateway::StoreStatus>> StoreUpkeep::check() {
  {
    const std::lock_guard lock(mutex_);
    if (last_error_) co_return *last_error_;
    if (asked_since_ && Steady::now() - *asked_since_ > options_.probe_patience) {
      co_return Error(Code::Unavailable, "the store has not answered for some time");
    }
  }
  const store::Description description = store_.describe();
  co_return gateway::StoreStatus{description.backend,
                                 std::string(store::durabilityName(description.durability))};
}

}  // namespace nimbus::server
