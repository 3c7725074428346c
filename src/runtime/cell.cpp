#include "runtime/cell.h"

#include "base/log.h"
#include "runtime/cell_process.h"
#include "runtime/launcher.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

namespace nimbus::runtime {
namespace {

namespace asio = boost::asio;

constexpr auto kToken = asio::as_tuple(asio::use_awaitable);

constexpr std::chrono::milliseconds kTrial{10'000};

Error hasEnded(int reason) {
  if (reason == 0) return {Code::Unavailable, "the cell has ended"};
  return {Code::Unavailable, fmt::format("the cell has ended: {}", std::strerror(reason))};
}

// What a cell said, with the descriptors that came along.
Task<Result<std::vector<Descriptor>>> answerOf(int control) {
  // Its own copy: that goes with the context it waits on, whoever has the other.
  asio::posix::stream_descriptor waiting(co_await asio::this_coro::executor,
                                         ::fcntl(control, F_DUPFD_CLOEXEC, 0));
  CellAnswer answer;
  iovec bytes{&answer, sizeof answer};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxNamespaces * sizeof(int))> room{};
  msghdr message{};
  ssize_t size = -1;
  // Asio may say that something is there when nothing is: an event of a descriptor that was closed
  // meanwhile counts for the one that has taken its place.
  do {
    const auto [failed] =
        co_await waiting.async_wait(asio::posix::stream_descriptor::wait_read, kToken);
    if (failed) co_return hasEnded(failed.value());
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = room.data();
    message.msg_controllen = room.size();
    size = ::recvmsg(control, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (size < 0 && (errno == EAGAIN || errno == EINTR));
  if (size != sizeof answer) co_return hasEnded(size < 0 ? errno : 0);
  std::vector<Descriptor> descriptors;
  if (const cmsghdr* const rights = CMSG_FIRSTHDR(&message)) {
    std::array<int, kMaxNamespaces> numbers{};
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::memcpy(numbers.data(), CMSG_DATA(rights), count * sizeof(int));
    for (std::size_t i = 0; i < count; ++i) descriptors.emplace_back(numbers.at(i));
  }
  if (answer.error == 0) co_return descriptors;
  answer.doing.back() = '\0';
  co_return Error(Code::Unavailable,
                  fmt::format("{}: {}", answer.doing.data(), std::strerror(answer.error)));
}

}  // namespace

Task<Result<>> Cell::mount(std::vector<CodeMount> mounts) {
  for (const CodeMount& one : mounts) {
    std::string order = one.path;
    order.append(1, '\0').append(one.place).append(1, '\0');
    if (::send(control_.get(), order.data(), order.size(), MSG_NOSIGNAL) < 0) {
      co_return hasEnded(errno);
    }
    const auto answer = co_await answerOf(control_.get());
    if (!answer) {
      co_return Error(Code::Unavailable,
                      fmt::format("the code could not be mounted: {}", answer.error().message()));
    }
  }
  co_return Result<>();
}

void Cell::checkMemory(std::size_t limit) const {
  const std::string order = fmt::format("{}{}{}", '\0', limit, '\0');
  static_cast<void>(
      ::send(control_.get(), order.data(), order.size(), MSG_NOSIGNAL | MSG_DONTWAIT));
}

std::string Cell::lastWords() const {
  CellAnswer answer;
  const ssize_t size = ::recv(control_.get(), &answer, sizeof answer, MSG_DONTWAIT);
  if (size != sizeof answer || answer.error == 0) return {};
  answer.doing.back() = '\0';
  return answer.doing.data();
}

Task<Result<Cell>> Cells::make(Network network) {
  if (keeper_.filter().empty()) {
    co_return Error(Code::Unavailable, "this kernel does not filter system calls");
  }
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    co_return Error(Code::Unavailable,
                    fmt::format("no descriptors for another cell: {}", std::strerror(errno)));
  }
  Descriptor ours(ends[0]);
  Descriptor theirs(ends[1]);
  NIMBUS_CO_CHECK(co_await keeper_.beginCell(contents_, network, std::move(theirs)));
  NIMBUS_CO_TRY(std::vector<Descriptor> namespaces, co_await answerOf(ours.get()));
  co_return Cell(std::move(ours), std::move(namespaces));
}

Task<Result<Cell>> Cells::take(Network network) {
  if (network == Network::Hosts) co_return co_await make(network);
  std::optional<Cell> cell;
  {
    const std::lock_guard lock(mutex_);
    if (!ready_.empty()) {
      cell = std::move(ready_.back());
      ready_.pop_back();
    }
  }
  Result<Cell> taken = cell ? Result<Cell>(*std::move(cell)) : co_await make(network);
  if (taken) asio::co_spawn(co_await asio::this_coro::executor, refill(), asio::detached);
  co_return taken;
}

Task<> Cells::refill() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (ready_.size() + making_ >= spare_) co_return;
      ++making_;
    }
    Result<Cell> made = co_await make(Network::None);
    const std::lock_guard lock(mutex_);
    --making_;
    if (!made) {
      log::warn("no cell could be made ahead", {{"error", made.error().message()}});
      co_return;
    }
    ready_.push_back(*std::move(made));
  }
}

Task<Result<>> tryCell(Cells& cells, Command command) {
  NIMBUS_CO_TRY(Cell cell, co_await cells.take(Network::None));
  NIMBUS_CO_TRY(Connection connection, connect());
  const std::string program = command.arguments.front();
  NIMBUS_CO_TRY(const pid_t process,
                co_await cells.keeper().spawn(std::move(command), std::move(connection.theirs),
                                              cell.namespaces()));
  NIMBUS_CO_TRY(const ExitStatus status, co_await cells.keeper().exitOf(process, kTrial));
  if (!status.signalled && status.number == 0) co_return Result<>();
  co_return Error(Code::Unavailable, fmt::format("{} in a cell: {}", program, status.text()));
}

}  // namespace nimbus::runtime
