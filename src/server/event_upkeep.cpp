#include "server/event_upkeep.h"

#include "base/log.h"
#include "events/upkeep.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>

namespace nimbus::server {
namespace {

namespace asio = boost::asio;

constexpr Millis kIntentsEvery{5'000};
constexpr Millis kExpiredEvery{30'000};

void logFailure(std::string_view what, const Result<>& done) {
  if (done) return;
  log::warn("event logs: will be tried again",
            {{"task", what}, {"reason", done.error().message()}});
}

}  // namespace

EventUpkeep::EventUpkeep(store::Store& store, events::Sessions& sessions,
                         asio::any_io_executor executor)
    : store_(store),
      sessions_(sessions),
      executor_(std::move(executor)),
      tasks_(executor_, "event upkeep") {}

void EventUpkeep::start() {
  tasks_.add(carryOutIntents());
  tasks_.add(removeExpired());
}

Task<> EventUpkeep::stop() {
  tasks_.cancel();
  co_await tasks_.join();
}

Task<> EventUpkeep::pause(Millis time) {
  asio::steady_timer timer(executor_, time);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<> EventUpkeep::carryOutIntents() {
  while (true) {
    logFailure("changes of shared state", co_await events::carryOutLeftIntents(store_));
    co_await pause(kIntentsEvery);
  }
}

Task<> EventUpkeep::removeExpired() {
  while (true) {
    co_await pause(kExpiredEvery);
    logFailure("expired sessions", co_await events::removeExpiredSessions(store_, sessions_));
    logFailure("expired tracks", co_await events::removeExpiredTracks(store_));
  }
}

}  // namespace nimbus::server
