#include "redis/transport.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>

#include <utility>

namespace nimbus::redis {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);

Error away(const boost::system::error_code& failure, Outcome outcome) {
  return {Code::Unavailable, failure.message(), outcome};
}

class Plain : public Transport {
 public:
  explicit Plain(const asio::any_io_executor& executor) : socket_(executor), resolver_(executor) {}

  Task<Result<>> open(Address address) override {
    const auto [unknown, found] =
        co_await resolver_.async_resolve(address.host, std::to_string(address.port), kAwait);
    if (unknown) co_return away(unknown, Outcome::NotApplied);
    const auto [refused, endpoint] = co_await asio::async_connect(socket_, found, kAwait);
    if (refused) co_return away(refused, Outcome::NotApplied);
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    socket_.set_option(asio::socket_base::keep_alive(true), ignored);
    co_return Result<>();
  }
  Task<Result<std::size_t>> read(asio::mutable_buffer buffer) override {
    const auto [failure, size] = co_await socket_.async_read_some(buffer, kAwait);
    if (failure) co_return away(failure, Outcome::Unknown);
    co_return size;
  }
  void write(asio::const_buffer bytes, Written written) override {
    asio::async_write(socket_, bytes,
                      [written = std::move(written)](const boost::system::error_code& failure,
                                                     std::size_t) { written(failure); });
  }
  void close() override {
    boost::system::error_code ignored;
    resolver_.cancel();
    socket_.close(ignored);
  }

 protected:
  tcp::socket& socket() { return socket_; }

 private:
  tcp::socket socket_;
  tcp::resolver resolver_;
};

class Encrypted final : public Plain {
 public:
  Encrypted(const asio::any_io_executor& executor, std::shared_ptr<asio::ssl::context> context)
      : Plain(executor), context_(std::move(context)), stream_(socket(), *context_) {}

  Task<Result<>> open(Address address) override {
    stream_.set_verify_callback(asio::ssl::host_name_verification(address.host));
    SSL_set_tlsext_host_name(stream_.native_handle(), address.host.c_str());
    NIMBUS_CO_CHECK(co_await Plain::open(address));
    const auto [refused] = co_await stream_.async_handshake(asio::ssl::stream_base::client, kAwait);
    if (refused) co_return away(refused, Outcome::NotApplied).in("TLS");
    co_return Result<>();
  }
  Task<Result<std::size_t>> read(asio::mutable_buffer buffer) override {
    const auto [failure, size] = co_await stream_.async_read_some(buffer, kAwait);
    if (failure) co_return away(failure, Outcome::Unknown);
    co_return size;
  }
  void write(asio::const_buffer bytes, Written written) override {
    asio::async_write(stream_, bytes,
                      [written = std::move(written)](const boost::system::error_code& failure,
                                                     std::size_t) { written(failure); });
  }

 private:
  std::shared_ptr<asio::ssl::context> context_;
  asio::ssl::stream<tcp::socket&> stream_;
};

}  // namespace

std::unique_ptr<Transport> makeTransport(const asio::any_io_executor& executor,
                                         std::shared_ptr<asio::ssl::context> tls) {
  if (tls) return std::make_unique<Encrypted>(executor, std::move(tls));
  return std::make_unique<Plain>(executor);
}

Result<std::shared_ptr<asio::ssl::context>> makeTlsContext() {
  auto context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  boost::system::error_code failure;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1,
                       failure);
  context->set_verify_mode(asio::ssl::verify_peer, failure);
  context->set_default_verify_paths(failure);
  if (failure) {
    return Error(Code::InvalidArgument,
                 "the system's certificates cannot be used: " + failure.message());
  }
  return context;
}

}  // namespace nimbus::redis
