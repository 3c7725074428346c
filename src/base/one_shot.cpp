#include "base/one_shot.h"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <iterator>
#include <vector>

namespace nimbus {

namespace asio = boost::asio;

class OneShotEvent::Waiter {
 public:
  explicit Waiter(const asio::any_io_executor& executor)
      : executor_(asio::prefer(executor, asio::execution::outstanding_work.tracked)) {}
  virtual ~Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  // Called on the executor.
  virtual void resume() = 0;

  const asio::any_io_executor& executor() const { return executor_; }

 private:
  const asio::any_io_executor executor_;
};

namespace {

// Set while a ResumeTogether lives on this thread; who sets an event below it does not know of it.
// NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables): what a scope is made of
thread_local ResumeTogether* gathering = nullptr;

}  // namespace

OneShotEvent::~OneShotEvent() {
  NIMBUS_ASSERT(state_.load() <= kSet, "OneShotEvent destroyed with a task waiting for it");
}

void OneShotEvent::set() {
  const std::uintptr_t before = state_.exchange(kSet, std::memory_order_acq_rel);
  NIMBUS_ASSERT(before != kSet, "OneShotEvent set twice");
  if (before == kEmpty) return;
  std::unique_ptr<Waiter> waiter(reinterpret_cast<Waiter*>(before));  // NOLINT(*-cast,*-int-to-ptr)
  if (gathering != nullptr) {
    gathering->add(std::move(waiter));
    return;
  }
  // post, never dispatch: set() must not run the waiting task on the thread that sets.
  const auto executor = waiter->executor();
  asio::post(executor, [waiter = std::move(waiter)] { waiter->resume(); });
}

// Starts the wait, given the handler that resumes the task.
struct OneShotEvent::Begin {
  OneShotEvent* event;

  template <typename Handler>
  class HandlerWaiter final : public Waiter {
   public:
    explicit HandlerWaiter(Handler handler)
        : Waiter(asio::get_associated_executor(handler)), handler_(std::move(handler)) {}
    void resume() override { std::move(handler_)(); }

   private:
    Handler handler_;
  };

  template <typename Handler>
  void operator()(Handler handler) const {
    auto waiter = std::make_unique<HandlerWaiter<Handler>>(std::move(handler));
    Waiter* const base = waiter.get();
    std::uintptr_t expected = kEmpty;
    const auto address = reinterpret_cast<std::uintptr_t>(base);  // NOLINT(*-reinterpret-cast)
    if (event->state_.compare_exchange_strong(expected, address, std::memory_order_acq_rel)) {
      static_cast<void>(waiter.release());  // set() owns it now
      return;
    }
    NIMBUS_ASSERT(expected == kSet, "two tasks wait for one OneShotEvent");
    const auto executor = waiter->executor();
    asio::post(executor, [waiter = std::move(waiter)] { waiter->resume(); });
  }
};

Task<> OneShotEvent::wait() {
  return asio::async_initiate<const asio::use_awaitable_t<>&, void()>(Begin{this},
                                                                      asio::use_awaitable);
}

struct ResumeTogether::State {
  struct Group {
    asio::any_io_executor executor;
    std::vector<std::unique_ptr<OneShotEvent::Waiter>> waiters;
  };
  std::vector<Group> groups;  // one per shard of the server: few
};

ResumeTogether::ResumeTogether() : state_(std::make_unique<State>()) {
  NIMBUS_ASSERT(gathering == nullptr, "one ResumeTogether per thread at a time");
  gathering = this;
}

ResumeTogether::~ResumeTogether() {
  gathering = nullptr;
  for (State::Group& group : state_->groups) {
    const auto executor = group.executor;
    asio::post(executor, [waiters = std::move(group.waiters)] {
      for (const auto& waiter : waiters) waiter->resume();
    });
  }
}

void ResumeTogether::add(std::unique_ptr<OneShotEvent::Waiter> waiter) {
  auto& groups = state_->groups;
  auto group = std::find_if(groups.begin(), groups.end(), [&](const State::Group& known) {
    return known.executor == waiter->executor();
  });
  if (group == groups.end()) {
    groups.emplace_back();
    group = std::prev(groups.end());
    group->executor = waiter->executor();
  }
  group->waiters.push_back(std::move(waiter));
}

}  // namespace nimbus
