#include "base/one_shot.h"

#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <memory>

namespace nimbus {

namespace asio = boost::asio;

OneShotEvent::~OneShotEvent() {
  NIMBUS_ASSERT(state_.load() <= kSet, "OneShotEvent destroyed with a task waiting for it");
}

void OneShotEvent::resume(Waiter* waiter) {
  const std::unique_ptr<Waiter> owner(waiter);
  // post, never dispatch: set() must not run the waiting task on the thread that sets.
  asio::post(owner->executor, std::move(owner->handler));
}

void OneShotEvent::set() {
  const std::uintptr_t before = state_.exchange(kSet, std::memory_order_acq_rel);
  NIMBUS_ASSERT(before != kSet, "OneShotEvent set twice");
  if (before != kEmpty) resume(reinterpret_cast<Waiter*>(before));  // NOLINT(*-reinterpret-cast)
}

Task<> OneShotEvent::wait() {
  if (isSet()) co_return;
  const asio::any_io_executor executor =
      asio::prefer(co_await asio::this_coro::executor, asio::execution::outstanding_work.tracked);
  auto begin = [this, &executor](auto handler) {
    auto waiter = std::make_unique<Waiter>(Waiter{std::move(handler), executor});
    std::uintptr_t expected = kEmpty;
    const auto address =
        reinterpret_cast<std::uintptr_t>(waiter.get());  // NOLINT(*-reinterpret-cast)
    if (state_.compare_exchange_strong(expected, address, std::memory_order_acq_rel)) {
      static_cast<void>(waiter.release());  // set() owns it now
      return;
    }
    NIMBUS_ASSERT(expected == kSet, "two tasks wait for one OneShotEvent");
    resume(waiter.release());
  };
  co_await asio::async_initiate<const asio::use_awaitable_t<>&, void()>(std::move(begin),
                                                                        asio::use_awaitable);
}

}  // namespace nimbus
