#include "http/lane.h"

#include "base/assert.h"
#include "http/connection.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <cstring>

namespace nimbus::http {

namespace asio = boost::asio;
namespace intrusive = boost::intrusive;

namespace {

// How many workspaces a thread keeps for the next request, and how many idle connections may hold
// one. Keeping one spares a busy connection a system call per request; 256 of them are some 5 MB.
constexpr std::size_t kMostSpare = 64;
constexpr std::size_t kMostKept = 256;

// Clients beyond max_connections that are told so before they are closed; more are just closed.
constexpr std::size_t kMostTurnedAway = 256;

constexpr std::size_t kKeptOut = 64 * 1024;

// After the sockets are closed and the handlers cancelled, for the tasks to unwind.
constexpr std::chrono::milliseconds kUnwindTime{500};

// How often deadlines are looked at: often enough for the shortest of them.
std::chrono::milliseconds sweepInterval(const ServerOptions& options) {
  const auto shortest =
      std::min({options.idle_timeout, options.header_timeout, options.body_timeout,
                options.write_timeout, options.linger_timeout, options.heartbeat});
  return std::clamp(shortest / 4, std::chrono::milliseconds(10), std::chrono::milliseconds(1000));
}

}  // namespace

void Buffer::compact() {
  if (begin_ == 0) return;
  std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
}

void Workspace::reset() {
  if (in->capacity() != Buffer::kSize) in = std::make_unique<Buffer>(Buffer::kSize);
  in->clear();
  body_in.reset();
  out.clear();
  if (out.capacity() > kKeptOut) out.shrink_to_fit();
  request.reset();
  scanner.reset();
  chunked.reset();
}

struct Lane::Lists {
  intrusive::list<Connection, intrusive::base_hook<OpenHook>, intrusive::constant_time_size<false>>
      open;
  intrusive::list<Connection, intrusive::base_hook<DirtyHook>, intrusive::constant_time_size<false>>
      dirty;
};

Lane::Lane(asio::io_context& context, std::shared_ptr<const Settings> settings)
    : context_(context),
      settings_(std::move(settings)),
      lists_(std::make_unique<Lists>()),
      sweep_timer_(context),
      emptied_(context),
      sweep_interval_(sweepInterval(settings_->options)) {}

Lane::~Lane() {
  NIMBUS_ASSERT(lists_->open.empty(), "a connection holds its lane");
}

void Lane::start() {
  // A clock of somebody else's is looked at when they say so.
  if (settings_->hooks.clock == nullptr) armSweep();
}

void Lane::adopt(Socket socket) {
  if (is_stopping_) return;
  const std::size_t open = settings_->connections.load(std::memory_order_relaxed);
  const std::size_t limit = settings_->options.max_connections;
  if (open >= limit + kMostTurnedAway) return;
  const auto role = open >= limit ? Connection::Role::TurnAway : Connection::Role::Serve;
  Connection::start(shared_from_this(), std::move(socket), role);
}

std::unique_ptr<Workspace> Lane::borrow() {
  ++borrowed_;
  if (spare_.empty()) return std::make_unique<Workspace>();
  auto workspace = std::move(spare_.back());
  spare_.pop_back();
  return workspace;
}

void Lane::giveBack(std::unique_ptr<Workspace> workspace) {
  --borrowed_;
  if (spare_.size() >= kMostSpare) return;
  workspace->reset();
  spare_.push_back(std::move(workspace));
}

bool Lane::hasRoomToIdle() const {
  return borrowed_ <= kMostKept;
}

void Lane::add(Connection& connection) {
  lists_->open.push_back(connection);
  ++open_;
  settings_->connections.fetch_add(1, std::memory_order_relaxed);
}

void Lane::remove(Connection& connection) {
  lists_->open.erase(lists_->open.iterator_to(connection));
  settings_->connections.fetch_sub(1, std::memory_order_relaxed);
  if (--open_ == 0) emptied_.cancel();
}

void Lane::flushSoon(Connection& connection) {
  if (connection.DirtyHook::is_linked()) return;
  lists_->dirty.push_back(connection);
  if (is_flush_posted_) return;
  is_flush_posted_ = true;
  auto flush = [self = shared_from_this()] { self->flushDirty(); };
  asio::post(context_, std::move(flush));
}

void Lane::flushDirty() {
  is_flush_posted_ = false;
  while (!lists_->dirty.empty()) {
    Connection& connection = lists_->dirty.front();
    lists_->dirty.pop_front();
    connection.flushDirty();
  }
}

void Lane::armSweep() {
  sweep_timer_.expires_after(sweep_interval_);
  auto expired = [weak = weak_from_this()](const boost::system::error_code& failure) {
    const auto self = weak.lock();
    if (failure || !self) return;
    self->sweep();
    self->armSweep();
  };
  sweep_timer_.async_wait(std::move(expired));
}

void Lane::sweep() {
  const Time time = now();
  // Nothing a connection does here ends its task at once, so none leaves the list meanwhile.
  for (Connection& connection : lists_->open) connection.sweep(time);
}

Task<std::size_t> Lane::stop(Time deadline) {
  const auto self = shared_from_this();
  is_stopping_ = true;
  for (Connection& connection : lists_->open) connection.drain();
  while (open_ > 0 && std::chrono::steady_clock::now() < deadline) {
    emptied_.expires_at(deadline);
    co_await emptied_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  for (Connection& connection : lists_->open) connection.cutOff();
  const Time unwound = std::chrono::steady_clock::now() + kUnwindTime;
  while (open_ > 0 && std::chrono::steady_clock::now() < unwound) {
    emptied_.expires_at(unwound);
    co_await emptied_.async_wait(asio::as_tuple(asio::use_awaitable));
  }
  sweep_timer_.cancel();
  co_return open_;
}

}  // namespace nimbus::http
