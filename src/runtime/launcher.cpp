#include "runtime/launcher.h"

#include "base/log.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace nimbus::runtime {
namespace {

namespace asio = boost::asio;

Error noDescriptors() {
  return {Code::Unavailable,
          fmt::format("no descriptors for another instance: {}", std::strerror(errno))};
}

// Ours does not block, theirs does: a program that prints expects that.
bool makePipe(Descriptor& ours, Descriptor& theirs) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return false;
  ours.reset(ends[0]);
  theirs.reset(ends[1]);
  ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
  return true;
}

}  // namespace

Result<Connection> connect() {
  Connection connection;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return noDescriptors();
  }
  connection.ours.socket.reset(ends[0]);
  connection.theirs.socket.reset(ends[1]);
  if (!makePipe(connection.ours.out, connection.theirs.out) ||
      !makePipe(connection.ours.err, connection.theirs.err)) {
    return noDescriptors();
  }
  return connection;
}

Task<Result<Ends>> ProgramLauncher::launch() {
  NIMBUS_CO_TRY(Connection connection, connect());
  Ends& ours = connection.ours;
  if (home_.isCell()) {
    NIMBUS_CO_TRY(ours.cell, co_await home_.cells->take(home_.network));
    NIMBUS_CO_CHECK(co_await ours.cell.mount(mounts_));
  }
  NIMBUS_CO_TRY(ours.process, co_await keeper_.spawn(command_, std::move(connection.theirs),
                                                     ours.cell.namespaces()));
  ours.cell.complete();
  co_return std::move(ours);
}

Task<Result<Ends>> WarmLauncher::launch() {
  std::optional<Ends> ends;
  {
    const std::lock_guard lock(mutex_);
    if (!warm_.empty()) {
      ends = std::move(warm_.back());
      warm_.pop_back();
    }
  }
  Result<Ends> launched = ends ? Result<Ends>(*std::move(ends)) : co_await program_.launch();
  asio::co_spawn(co_await asio::this_coro::executor, refill(), asio::detached);
  co_return launched;
}

Task<> WarmLauncher::refill() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (warm_.size() + starting_ >= spare_) co_return;
      ++starting_;
    }
    Result<Ends> launched = co_await program_.launch();
    const std::lock_guard lock(mutex_);
    --starting_;
    if (!launched) {
      log::warn("no process could be started ahead", {{"error", launched.error().message()}});
      co_return;
    }
    warm_.push_back(*std::move(launched));
  }
}

bool Zygote::tryFork(const Channels& channels, std::span<const Descriptor> namespaces) {
  const std::lock_guard lock(mutex_);
  if (socket_.get() < 0) return false;
  char order = 'F';
  const SystemCallFilter& filter = keeper_.filter();
  std::array<iovec, 2> bytes = {iovec{&order, 1}, iovec{}};
  if (!namespaces.empty()) {
    bytes[1] = {const_cast<sock_filter*>(filter.data()), filter.size() * sizeof(sock_filter)};
  }
  std::vector<int> descriptors = {channels.socket.get(), channels.out.get(), channels.err.get()};
  for (const Descriptor& one : namespaces) descriptors.push_back(one.get());
  const std::size_t size = descriptors.size() * sizeof(int);
  std::vector<char> control(CMSG_SPACE(size));
  msghdr message{};
  message.msg_iov = bytes.data();
  message.msg_iovlen = bytes.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(size);
  std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
  if (::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) > 0) return true;
  if (errno != EAGAIN) socket_.reset();  // it has died
  return false;
}

// Two that were started at once would be one too many, and the end of that one takes along what it
// has just forked.
Task<Result<>> Zygote::start() {
  std::shared_ptr<Started> other;
  {
    const std::lock_guard lock(mutex_);
    if (socket_.get() >= 0) co_return Result<>();
    if (is_starting_) {
      other = std::make_shared<Started>();
      waiting_.push_back(other);
    }
    is_starting_ = true;
  }
  if (other) co_return co_await other->wait(other);
  Result<> started = co_await startAlone();
  std::vector<std::shared_ptr<Started>> waiting;
  {
    const std::lock_guard lock(mutex_);
    is_starting_ = false;
    waiting.swap(waiting_);
  }
  for (const auto& one : waiting) one->set(started);
  co_return started;
}

Task<Result<>> Zygote::startAlone() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    co_return noDescriptors();
  }
  Descriptor ours(ends[0]);
  Channels theirs;
  theirs.socket.reset(ends[1]);
  theirs.out.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  theirs.err.reset(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  NIMBUS_CO_CHECK(co_await keeper_.spawn(command_, std::move(theirs)));
  const std::lock_guard lock(mutex_);
  socket_ = std::move(ours);
  co_return Result<>();
}

Task<Result<>> Zygote::fork(const Channels& channels, std::span<const Descriptor> namespaces) {
  if (tryFork(channels, namespaces)) co_return Result<>();
  NIMBUS_CO_CHECK(co_await start());
  if (tryFork(channels, namespaces)) co_return Result<>();
  co_return Error(Code::Unavailable, "the zygote takes no order; too many at once?");
}

Task<Result<Ends>> ZygoteLauncher::launch() {
  NIMBUS_CO_TRY(Connection connection, connect());
  Ends& ours = connection.ours;
  if (home_.isCell()) {
    NIMBUS_CO_TRY(ours.cell, co_await home_.cells->take(home_.network));
  }
  NIMBUS_CO_CHECK(co_await zygote_->fork(connection.theirs, ours.cell.namespaces()));
  ours.cell.complete();
  co_return std::move(ours);
}

Task<Result<Ends>> FunctionLauncher::launch() {
  NIMBUS_CO_TRY(Ends ends, co_await launcher_->launch());
  NIMBUS_CO_CHECK(co_await ends.cell.mount(mounts_));
  ends.memory_limit = memory_limit_;
  co_return ends;
}

}  // namespace nimbus::runtime
