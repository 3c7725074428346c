#include "http/server.h"

#include "base/assert.h"
#include "base/log.h"
#include "base/one_shot.h"
#include "http/lane.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>
#include <openssl/ssl.h>

#include <cerrno>

namespace nimbus::http {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

namespace {

constexpr int kBacklog = 1024;

// After accept() failed for want of descriptors or memory: until something was closed, trying again
// at once would only burn the processor.
constexpr std::chrono::milliseconds kAcceptPause{100};

// Accepts for all lanes and deals the sockets out in turn. The kernel's own way to share a port
// (SO_REUSEPORT) goes by a hash, which gives few long-lived connections to threads unevenly.
class Acceptor : public std::enable_shared_from_this<Acceptor> {
 public:
  enum class Retry { ByTimer, ByHand };

  Acceptor(asio::io_context& context, std::vector<std::shared_ptr<Lane>> lanes, Retry retry)
      : acceptor_(context), pause_(context), lanes_(std::move(lanes)), retry_(retry) {}

  Result<> listen(const ServerOptions& options) {
    error_code failure;
    const auto address = asio::ip::make_address(options.address, failure);
    if (failure) {
      return Error(Code::InvalidArgument, fmt::format("'{}' is no IP address", options.address));
    }
    const tcp::endpoint endpoint(address, options.port);
    acceptor_.open(endpoint.protocol(), failure);
    if (!failure) acceptor_.set_option(tcp::acceptor::reuse_address(true), failure);
    if (!failure) acceptor_.bind(endpoint, failure);
    if (!failure) acceptor_.listen(kBacklog, failure);
    if (!failure) port_ = acceptor_.local_endpoint(failure).port();
    if (!failure) return {};
    return Error(Code::Unavailable, fmt::format("cannot listen on {}:{}: {}", options.address,
                                                options.port, failure.message()));
  }

  std::uint16_t port() const { return port_; }
  asio::any_io_executor executor() { return acceptor_.get_executor(); }

  void accept() {
    Lane& lane = *lanes_[next_lane_];
    next_lane_ = (next_lane_ + 1) % lanes_.size();
    auto accepted = [self = shared_from_this(), &lane](const error_code& failure, Socket socket) {
      self->onAccepted(failure, lane, std::move(socket));
    };
    acceptor_.async_accept(lane.context(), std::move(accepted));
  }

  // After a failure: tries again.
  void resume() {
    if (is_closed_ || !std::exchange(is_paused_, false)) return;
    accept();
  }

  void close() {
    error_code ignored;
    acceptor_.close(ignored);
    pause_.cancel();
    is_closed_ = true;
  }

 private:
  void onAccepted(const error_code& failure, Lane& lane, Socket socket) {
    if (is_closed_) return;
    if (!failure) {
      is_short_ = false;
      auto adopt = [target = lane.shared_from_this(), taken = std::move(socket)]() mutable {
        target->adopt(std::move(taken));
      };
      asio::post(lane.context(), std::move(adopt));
      accept();
      return;
    }
    if (failure == asio::error::connection_aborted) {
      accept();  // that client gave up in the queue
      return;
    }
    if (!std::exchange(is_short_, true)) {
      log::warn("cannot accept connections", {{"reason", failure.message()}});
    }
    is_paused_ = true;
    if (retry_ == Retry::ByHand) return;
    pause_.expires_after(kAcceptPause);
    auto again = [self = shared_from_this()](const error_code& stopped) {
      if (!stopped) self->resume();
    };
    pause_.async_wait(std::move(again));
  }

  asio::basic_socket_acceptor<tcp, Executor> acceptor_;
  asio::steady_timer pause_;
  std::vector<std::shared_ptr<Lane>> lanes_;
  std::size_t next_lane_ = 0;
  std::uint16_t port_ = 0;
  const Retry retry_;
  bool is_closed_ = false;
  bool is_paused_ = false;
  bool is_short_ = false;  // of descriptors or memory, and the log knows
};

Result<std::unique_ptr<asio::ssl::context>> openTls(const TlsFiles& files) {
  auto context = std::make_unique<asio::ssl::context>(asio::ssl::context::tls_server);
  error_code failure;
  context->set_options(asio::ssl::context::default_workarounds | asio::ssl::context::no_sslv2 |
                           asio::ssl::context::no_sslv3 | asio::ssl::context::no_tlsv1 |
                           asio::ssl::context::no_tlsv1_1,
                       failure);
  SSL_CTX_set_min_proto_version(context->native_handle(), TLS1_2_VERSION);
  if (!failure) context->use_certificate_chain_file(files.certificate_chain, failure);
  if (failure) {
    return Error(Code::InvalidArgument,
                 fmt::format("TLS certificate {}: {}", files.certificate_chain, failure.message()));
  }
  context->use_private_key_file(files.private_key, asio::ssl::context::pem, failure);
  if (failure) {
    return Error(Code::InvalidArgument,
                 fmt::format("TLS key {}: {}", files.private_key, failure.message()));
  }
  return context;
}

}  // namespace

struct Server::State {
  std::shared_ptr<Settings> settings;
  std::vector<std::shared_ptr<Lane>> lanes;
  std::shared_ptr<Acceptor> acceptor;
  bool is_started = false;
  bool is_stopped = false;
};

Result<std::unique_ptr<Server>> Server::open(ServerOptions options, Threads& threads,
                                             const Router& router, ServerHooks hooks) {
  auto state = std::make_unique<State>();
  state->settings = std::make_shared<Settings>(std::move(options), router, hooks);
  Settings& settings = *state->settings;
  if (settings.options.tls) {
    NIMBUS_TRY(settings.tls, openTls(*settings.options.tls));
  }
  for (std::size_t i = 0; i < threads.size(); ++i) {
    state->lanes.push_back(std::make_shared<Lane>(threads.context(i), state->settings));
  }
  const auto retry = hooks.clock != nullptr ? Acceptor::Retry::ByHand : Acceptor::Retry::ByTimer;
  state->acceptor = std::make_shared<Acceptor>(threads.context(0), state->lanes, retry);
  NIMBUS_CHECK(state->acceptor->listen(settings.options));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Server::~Server() {
  NIMBUS_ASSERT(!state_->is_started || state_->is_stopped, "a Server is stopped before it goes");
}

std::uint16_t Server::port() const {
  return state_->acceptor->port();
}

std::size_t Server::connections() const {
  return state_->settings->connections.load(std::memory_order_relaxed);
}

void Server::start() {
  NIMBUS_ASSERT(!state_->is_started, "a Server starts once");
  state_->is_started = true;
  for (const auto& lane : state_->lanes) {
    asio::post(lane->context(), [lane] { lane->start(); });
  }
  asio::post(state_->acceptor->executor(), [acceptor = state_->acceptor] { acceptor->accept(); });
}

namespace {

Task<> closeAcceptor(std::shared_ptr<Acceptor> acceptor) {
  acceptor->close();
  co_return;
}

Task<> resumeAcceptor(std::shared_ptr<Acceptor> acceptor) {
  acceptor->resume();
  co_return;
}

Task<> sweepLane(std::shared_ptr<Lane> lane) {
  lane->sweep();
  co_return;
}

Task<std::size_t> stopLane(std::shared_ptr<Lane> lane, Time deadline) {
  co_return co_await lane->stop(deadline);
}

}  // namespace

Task<> Server::sweep() {
  NIMBUS_ASSERT(state_->settings->hooks.clock != nullptr, "the server looks at its own clock");
  for (const auto& lane : state_->lanes) {
    co_await asio::co_spawn(lane->context(), sweepLane(lane), asio::use_awaitable);
  }
  co_await asio::co_spawn(state_->acceptor->executor(), resumeAcceptor(state_->acceptor),
                          asio::use_awaitable);
}

Task<> Server::stop(std::chrono::milliseconds drain) {
  const Time deadline = std::chrono::steady_clock::now() + drain;
  if (!state_->is_started) co_return;
  co_await asio::co_spawn(state_->acceptor->executor(), closeAcceptor(state_->acceptor),
                          asio::use_awaitable);
  // Begun together, awaited one after the other: the deadline is the same for all.
  std::vector<std::shared_ptr<OneShot<std::size_t>>> lanes;
  for (const auto& lane : state_->lanes) {
    auto left = std::make_shared<OneShot<std::size_t>>();
    auto stopped = [left](const std::exception_ptr&, std::size_t count) { left->set(count); };
    asio::co_spawn(lane->context(), stopLane(lane, deadline), std::move(stopped));
    lanes.push_back(std::move(left));
  }
  std::size_t left_behind = 0;
  for (const auto& left : lanes) left_behind += co_await left->wait();
  if (left_behind > 0) {
    log::warn("handlers did not end with the server", {{"connections", left_behind}});
  }
  state_->is_stopped = true;
}

}  // namespace nimbus::http
