#include "cluster/peers.h"

#include "base/one_shot.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <charconv>
#include <chrono>
#include <exception>
#include <optional>
#include <utility>

namespace nimbus::cluster {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using Steady = std::chrono::steady_clock;

constexpr auto kAwait = asio::as_tuple(asio::use_awaitable);
constexpr std::size_t kPiece = 16 * 1024;
constexpr std::size_t kMaxHead = 64 * 1024;

bool equalIgnoringCase(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
    if (lower(a[i]) != lower(b[i])) return false;
  }
  return true;
}

// "10.0.0.7:8788", "[::1]:8788".
std::optional<tcp::endpoint> endpointOf(std::string_view address) {
  const std::size_t colon = address.rfind(':');
  if (colon == std::string_view::npos) return std::nullopt;
  std::string_view host = address.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  const std::string_view digits = address.substr(colon + 1);
  unsigned port = 0;
  const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  boost::system::error_code refused;
  const auto ip = asio::ip::make_address(std::string(host), refused);
  if (failed != std::errc() || end != digits.data() + digits.size() || refused || port > 65'535) {
    return std::nullopt;
  }
  return tcp::endpoint(ip, static_cast<std::uint16_t>(port));
}

// A machine that is gone says nothing: the kernel asks whether it is there, and gives up on it.
void noticeDeath(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(asio::socket_base::keep_alive(true), ignored);
  using Seconds = int;
  const auto set = [&](int option, Seconds value) {
    static_cast<void>(
        ::setsockopt(socket.native_handle(), IPPROTO_TCP, option, &value, sizeof value));
  };
  set(TCP_KEEPIDLE, 5);
  set(TCP_KEEPINTVL, 2);
  set(TCP_KEEPCNT, 3);
}

Error broken(std::string_view address, std::string_view what, Outcome outcome) {
  return {Code::Unavailable, fmt::format("the node at {}: {}", address, what), outcome};
}

}  // namespace

std::string_view PeerAnswer::header(std::string_view name) const {
  std::string_view rest = head;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find("\r\n"), rest.size());
    const std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 2, rest.size()));
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !equalIgnoringCase(line.substr(0, colon), name))
      continue;
    std::string_view value = line.substr(colon + 1);
    while (value.starts_with(' ')) value.remove_prefix(1);
    return value;
  }
  return {};
}

struct Peers::Connection {
  Connection(const asio::any_io_executor& executor, std::string to)
      : address(std::move(to)), socket(executor) {}

  void close() {
    boost::system::error_code ignored;
    socket.close(ignored);
  }
  // Whether the other side has neither closed it nor said anything that nobody asked for.
  bool isQuiet() {
    char byte = 0;
    boost::system::error_code failure;
    socket.receive(asio::buffer(&byte, 1), tcp::socket::message_peek, failure);
    return failure == asio::error::would_block;
  }

  const std::string address;
  tcp::socket socket;
  std::string in;
  Steady::time_point idle_since;
};

// A connection while it is used: kept afterwards only if that was said.
class Peers::Use {
 public:
  Use(Peers& peers, ConnectionPtr connection, const void* thread)
      : peers_(peers), connection_(std::move(connection)), thread_(thread) {
    const std::lock_guard lock(peers_.mutex_);
    peers_.peers_[connection_->address].busy.insert(connection_);
  }
  ~Use() {
    const std::lock_guard lock(peers_.mutex_);
    const auto peer = peers_.peers_.find(connection_->address);
    const bool was_dropped =
        peer == peers_.peers_.end() || peer->second.busy.erase(connection_) == 0;
    if (was_dropped || !is_good_) return;
    auto& idle = peer->second.idle[thread_];
    if (idle.size() >= peers_.options_.max_idle) return;
    connection_->idle_since = Steady::now();
    idle.push_back(connection_);
  }
  Use(const Use&) = delete;
  Use& operator=(const Use&) = delete;

  void keep() { is_good_ = true; }

 private:
  Peers& peers_;
  const ConnectionPtr connection_;
  const void* const thread_;
  bool is_good_ = false;
};

Peers::~Peers() = default;

Peers::ConnectionPtr Peers::takeIdle(const std::string& address, const void* thread) {
  while (true) {
    ConnectionPtr connection;
    {
      const std::lock_guard lock(mutex_);
      const auto peer = peers_.find(address);
      if (peer == peers_.end()) return nullptr;
      auto& idle = peer->second.idle[thread];
      if (idle.empty()) return nullptr;
      connection = std::move(idle.back());
      idle.pop_back();
    }
    const bool is_fresh = Steady::now() - connection->idle_since < options_.idle_timeout;
    if (is_fresh && connection->isQuiet()) return connection;
  }
}

Task<Result<>> Peers::connect(ConnectionPtr connection, std::string address) {
  const auto endpoint = endpointOf(address);
  if (!endpoint) co_return broken(address, "this is no address", Outcome::NotApplied);
  asio::steady_timer timer(connection->socket.get_executor(), options_.connect_timeout);
  timer.async_wait([connection](const boost::system::error_code& cancelled) {
    if (!cancelled) connection->close();
  });
  const auto [failure] = co_await connection->socket.async_connect(*endpoint, kAwait);
  timer.cancel();
  if (failure) co_return broken(address, failure.message(), Outcome::NotApplied);
  if (!connection->socket.is_open()) {
    co_return broken(address, "it does not answer", Outcome::NotApplied);
  }
  boost::system::error_code ignored;
  connection->socket.set_option(tcp::no_delay(true), ignored);
  noticeDeath(connection->socket);
  connection->socket.non_blocking(true, ignored);
  co_return Result<>();
}

Task<Result<PeerAnswer>> Peers::exchange(ConnectionPtr connection, std::string request) {
  Connection& peer = *connection;
  const bool is_head = request.starts_with("HEAD ");
  const auto [unsent, sent] =
      co_await asio::async_write(peer.socket, asio::buffer(request), kAwait);
  if (unsent) {
    // Part of a request is none: it is not acted upon.
    const bool is_whole = sent == request.size();
    co_return broken(peer.address, unsent.message(),
                     is_whole ? Outcome::Unknown : Outcome::NotApplied);
  }
  PeerAnswer answer;
  std::size_t head_end = std::string::npos;
  std::size_t wanted = 0;
  peer.in.clear();
  while (head_end == std::string::npos || peer.in.size() < wanted) {
    const std::size_t have = peer.in.size();
    const std::size_t piece = head_end == std::string::npos ? kPiece : wanted - have;
    peer.in.resize(have + piece);
    const auto [failure, count] =
        co_await peer.socket.async_read_some(asio::buffer(peer.in.data() + have, piece), kAwait);
    peer.in.resize(have + count);
    if (failure) co_return broken(peer.address, failure.message(), Outcome::Unknown);
    if (head_end != std::string::npos) continue;
    head_end = peer.in.find("\r\n\r\n", have < 3 ? 0 : have - 3);
    if (head_end == std::string::npos) {
      if (have > kMaxHead)
        co_return broken(peer.address, "what it says is not HTTP", Outcome::Unknown);
      continue;
    }
    const std::size_t line_end = peer.in.find("\r\n");
    const std::string_view line = std::string_view(peer.in).substr(0, line_end);
    const bool is_status =
        line.size() >= 12 && line.starts_with("HTTP/1.1 ") &&
        std::from_chars(line.data() + 9, line.data() + 12, answer.status).ec == std::errc();
    if (!is_status) co_return broken(peer.address, "what it says is not HTTP", Outcome::Unknown);
    answer.head = peer.in.substr(line_end + 2, head_end - line_end);
    const std::string_view length = answer.header("Content-Length");
    std::size_t bytes = 0;
    std::from_chars(length.data(), length.data() + length.size(), bytes);
    if (bytes > options_.max_body_bytes) {
      co_return broken(peer.address, "its answer is too long", Outcome::Unknown);
    }
    const bool has_body = !is_head && answer.status != 204 && answer.status != 304;
    wanted = head_end + 4 + (has_body ? bytes : 0);
  }
  answer.body = peer.in.substr(head_end + 4);
  if (peer.in.capacity() > kMaxHead) peer.in = std::string();
  co_return answer;
}

// A task of its own: whoever waits may be cancelled.
Task<Result<PeerAnswer>> Peers::send(std::string address, std::string request) {
  const auto done = std::make_shared<OneShot<Result<PeerAnswer>>>();
  asio::co_spawn(co_await asio::this_coro::executor,
                 sendUncancelled(std::move(address), std::move(request)),
                 [done](const std::exception_ptr&, Result<PeerAnswer> answer) {
                   done->set(std::move(answer));
                 });
  co_return co_await done->wait(done);
}

Task<Result<PeerAnswer>> Peers::sendUncancelled(std::string address, std::string request) {
  const auto executor = co_await asio::this_coro::executor;
  const void* const thread = &asio::query(executor, asio::execution::context);
  ConnectionPtr connection = takeIdle(address, thread);
  const bool is_new = connection == nullptr;
  if (is_new) connection = std::make_shared<Connection>(executor, address);
  Use use(*this, connection, thread);
  if (is_new) NIMBUS_CO_CHECK(co_await connect(connection, address));
  Result<PeerAnswer> answer = co_await exchange(connection, std::move(request));
  if (answer && !equalIgnoringCase(answer->header("Connection"), "close")) use.keep();
  co_return answer;
}

void Peers::dropIdle(const std::string& address) {
  decltype(Peer::idle) gone;
  {
    const std::lock_guard lock(mutex_);
    if (const auto peer = peers_.find(address); peer != peers_.end()) gone.swap(peer->second.idle);
  }
  for (const auto& [thread, connections] : gone) {
    for (const ConnectionPtr& connection : connections) {
      asio::post(connection->socket.get_executor(), [connection] { connection->close(); });
    }
  }
}

void Peers::drop(const std::string& address) {
  Peer gone;
  {
    const std::lock_guard lock(mutex_);
    auto peer = peers_.extract(address);
    if (!peer) return;
    gone = std::move(peer.mapped());
  }
  for (const ConnectionPtr& connection : gone.busy) {
    asio::post(connection->socket.get_executor(), [connection] { connection->close(); });
  }
  for (const auto& [thread, connections] : gone.idle) {
    for (const ConnectionPtr& connection : connections) {
      asio::post(connection->socket.get_executor(), [connection] { connection->close(); });
    }
  }
}

std::size_t Peers::connections() const {
  const std::lock_guard lock(mutex_);
  std::size_t count = 0;
  for (const auto& [address, peer] : peers_) {
    count += peer.busy.size();
    for (const auto& [thread, idle] : peer.idle) count += idle.size();
  }
  return count;
}

}  // namespace nimbus::cluster
