#include "redis/sentinel.h"

#include "redis/parser.h"
#include "redis/transport.h"

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <utility>
#include <variant>

namespace nimbus::redis {
namespace {

namespace asio = boost::asio;

Task<Result<Address>> ask(std::shared_ptr<Transport> transport, Address sentinel,
                          std::string primary) {
  NIMBUS_CO_CHECK(co_await transport->open(sentinel));
  const auto question = std::make_shared<std::string>(
      Command("SENTINEL").add("get-master-addr-by-name").add(primary).bytes());
  transport->write(asio::buffer(*question), [question, transport](const auto&) {});
  Parser parser;
  std::array<char, 1024> buffer{};
  while (true) {
    NIMBUS_CO_TRY(const std::size_t size, co_await transport->read(asio::buffer(buffer)));
    parser.feed({buffer.data(), size});
    NIMBUS_CO_TRY(const auto answer, parser.next());
    if (!answer) continue;
    if (answer->items.size() != 2) {
      co_return Error(Code::Unavailable, fmt::format("the Sentinel at {} knows no primary '{}'",
                                                     toString(sentinel), primary));
    }
    co_return parseAddress(answer->items[0].text + ":" + answer->items[1].text);
  }
}

Task<> closeAfter(std::shared_ptr<Transport> transport, asio::any_io_executor executor,
                  Millis time) {
  asio::steady_timer timer(executor, time);
  co_await timer.async_wait(asio::use_awaitable);
  transport->close();
}

}  // namespace

Task<Result<Address>> askSentinels(asio::any_io_executor executor, std::vector<Address> sentinels,
                                   std::string primary, Connection::Options options) {
  using namespace asio::experimental::awaitable_operators;
  Error last(Code::Unavailable, "no Sentinel was named");
  for (const Address& sentinel : sentinels) {
    std::shared_ptr<Transport> transport = makeTransport(executor, options.tls);
    const Millis patience = options.connect_timeout / 2;
    auto answered =
        co_await (ask(transport, sentinel, primary) || closeAfter(transport, executor, patience));
    transport->close();
    if (answered.index() == 0) {
      auto found = std::get<0>(std::move(answered));
      if (found) co_return found;
      last = std::move(found).error();
    } else {
      last = Error(Code::Unavailable,
                   fmt::format("the Sentinel at {} does not answer", toString(sentinel)));
    }
  }
  co_return last;
}

}  // namespace nimbus::redis
