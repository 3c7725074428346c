#include "base/task_group.h"

#include "base/assert.h"
#include "base/log.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <exception>
#include <list>

namespace nimbus {

namespace asio = boost::asio;

struct TaskGroup::State {
  State(asio::any_io_executor ex, std::string name)
      : executor(std::move(ex)), owner(std::move(name)), emptied(executor) {
    emptied.expires_at(std::chrono::steady_clock::time_point::max());
  }

  asio::any_io_executor executor;
  std::string owner;
  std::list<asio::cancellation_signal> signals;
  asio::steady_timer emptied;  // never expires; cancelled when the last task ends
  std::size_t failed = 0;
  bool cancelled = false;
};

namespace {

// Cancellation ends a task by this exception; it is how tasks are meant to end.
bool isCancellation(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const boost::system::system_error& error) {
    return error.code() == asio::error::operation_aborted;
  } catch (...) {
    return false;
  }
}

std::string describe(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception of unknown type";
  }
}

}  // namespace

TaskGroup::TaskGroup(asio::any_io_executor executor, std::string owner)
    : state_(std::make_shared<State>(std::move(executor), std::move(owner))) {}

TaskGroup::~TaskGroup() {
  NIMBUS_ASSERT(state_->signals.empty(), "TaskGroup destroyed with tasks running");
}

void TaskGroup::add(Task<> task) {
  const auto signal = state_->signals.emplace(state_->signals.end());
  auto ended = [state = state_, signal](const std::exception_ptr& failure) {
    state->signals.erase(signal);
    if (failure && !isCancellation(failure)) {
      ++state->failed;
      log::error("a background task failed",
                 {{"owner", state->owner}, {"reason", describe(failure)}});
    }
    if (state->signals.empty()) state->emptied.cancel();
  };
  asio::co_spawn(state_->executor, std::move(task),
                 asio::bind_cancellation_slot(signal->slot(), std::move(ended)));
  if (state_->cancelled) signal->emit(asio::cancellation_type::terminal);
}

void TaskGroup::cancel() {
  state_->cancelled = true;
  // A task may end, and leave the list, while its signal is being emitted.
  for (auto signal = state_->signals.begin(); signal != state_->signals.end();) {
    const auto current = signal++;
    current->emit(asio::cancellation_type::terminal);
  }
}

Task<> TaskGroup::join() {
  const auto state = state_;
  while (!state->signals.empty()) {
    co_await state->emptied.async_wait(asio::as_tuple(asio::use_awaitable));
  }
}

std::size_t TaskGroup::running() const {
  return state_->signals.size();
}
std::size_t TaskGroup::failed() const {
  return state_->failed;
}

}  // namespace nimbus
