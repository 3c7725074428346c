#include "redis/single.h"

#include "redis/sentinel.h"

#include <utility>

namespace nimbus::redis {
namespace {

Client::Options withSentinel(const boost::asio::any_io_executor& executor,
                             Client::Options options) {
  if (options.sentinel.empty()) return options;
  options.connection.locate = [executor, sentinels = options.addresses, primary = options.sentinel,
                               connection = options.connection] {
    return askSentinels(executor, sentinels, primary, connection);
  };
  return options;
}

}  // namespace

Single::Single(boost::asio::any_io_executor executor, Options options)
    : Client(executor, withSentinel(executor, options)), home_(options.addresses.front()) {}

Connection* Single::route(const Request& /*request*/) {
  return &connectionTo(home_);
}

void Single::onMoved(std::uint16_t /*slot*/, const Address& /*address*/) {}

// A connection that is lost comes back by itself, and asks the Sentinels where to.
void Single::lookAgain() {
  if (!stopped()) connectionTo(home_);
}

Address Single::homeOf(const std::string& /*channel*/) const {
  return home_;
}

}  // namespace nimbus::redis
