#include "base/threads.h"

#include "base/assert.h"
#include "base/log.h"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <exception>
#include <thread>

namespace nimbus {

namespace asio = boost::asio;

namespace {

void runUntilStopped(asio::io_context& context) {
  while (true) {
    try {
      context.run();
      return;
    } catch (const std::exception& failure) {
      // A task's failure is caught at its root; what arrives here has none and must not take the
      // thread, and every session on it, away.
      log::error("an exception left a handler", {{"reason", failure.what()}});
    }
  }
}

}  // namespace

struct Threads::Thread {
  // The hint tells Asio that one thread runs the context: it then spares itself the wake-ups.
  asio::io_context context{1};
  asio::executor_work_guard<asio::io_context::executor_type> work{context.get_executor()};
  std::thread thread;
};

Threads::Threads(std::size_t count) {
  if (count == 0) count = std::max(1U, std::thread::hardware_concurrency() / 2);
  for (std::size_t i = 0; i < count; ++i) {
    auto& added = threads_.emplace_back(std::make_unique<Thread>());
    added->thread = std::thread(runUntilStopped, std::ref(added->context));
  }
}

Threads::~Threads() {
  stop();
}

asio::io_context& Threads::context(std::size_t index) {
  return threads_.at(index)->context;
}

asio::any_io_executor Threads::executor(std::size_t index) {
  return threads_.at(index)->context.get_executor();
}

void Threads::stop() {
  for (const auto& thread : threads_) {
    NIMBUS_ASSERT(thread->thread.get_id() != std::this_thread::get_id(),
                  "a thread cannot wait for its own end");
    thread->work.reset();
    thread->context.stop();
  }
  for (const auto& thread : threads_) {
    if (thread->thread.joinable()) thread->thread.join();
  }
}

}  // namespace nimbus
