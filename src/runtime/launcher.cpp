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
  NIMBUS_CO_TRY(connection.ours.process,
                co_await keeper_.spawn(command_, std::move(connection.theirs)));
  co_return std::move(connection.ours);
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

bool ZygoteLauncher::fork(const Channels& channels) {
  const std::lock_guard lock(mutex_);
  if (zygote_.get() < 0) return false;
  char order = 'F';
  iovec bytes{&order, 1};
  const std::array<int, 3> descriptors = {channels.socket.get(), channels.out.get(),
                                          channels.err.get()};
  std::array<char, CMSG_SPACE(sizeof descriptors)> control{};
  msghdr message{};
  message.msg_iov = &bytes;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof descriptors);
  std::memcpy(CMSG_DATA(rights), descriptors.data(), sizeof descriptors);
  if (::sendmsg(zygote_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1) return true;
  if (errno != EAGAIN) zygote_.reset();  // it has died
  return false;
}

Task<Result<>> ZygoteLauncher::startZygote() {
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
  zygote_ = std::move(ours);  // if two were started at once, the other one ends now
  co_return Result<>();
}

Task<Result<Ends>> ZygoteLauncher::launch() {
  NIMBUS_CO_TRY(Connection connection, connect());
  if (!fork(connection.theirs)) {
    NIMBUS_CO_CHECK(co_await startZygote());
    if (!fork(connection.theirs)) {
      co_return Error(Code::Unavailable, "the zygote takes no order; too many at once?");
    }
  }
  co_return std::move(connection.ours);
}

}  // namespace nimbus::runtime
