#include "runtime/keeper.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "runtime/cell_process.h"
#include "runtime/keeper_process.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace nimbus::runtime {

namespace asio = boost::asio;

void Descriptor::reset(int number) {
  if (number_ >= 0) ::close(number_);
  number_ = number;
}

std::string ExitStatus::text() const {
  if (signalled) return fmt::format("it was killed by signal {}", number);
  return fmt::format("it exited with {}", number);
}

struct Keeper::State {
  using Started = OneShot<Result<pid_t>>;
  using Ended = OneShot<Result<ExitStatus>>;

  pid_t process = -1;
  SystemCallFilter filter;  // empty: this kernel has none
  Descriptor socket;
  std::mutex mutex;
  std::uint32_t next_id = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<Started>> starting;
  std::unordered_multimap<pid_t, std::shared_ptr<Ended>> waiting;
  // Of those that nobody has asked about yet, the newest last.
  std::deque<std::pair<pid_t, ExitStatus>> ended;

  void send(const std::vector<char>& bytes, std::span<const int> descriptors);
  std::shared_ptr<Started> expect(KeeperHead& head);
  void handle(const KeeperHead& head);
  void giveUp();
};

namespace {

constexpr std::size_t kRememberedEnds = 1024;

void append(std::vector<char>& bytes, const std::string& text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
  bytes.push_back('\0');
}

ExitStatus statusOf(int status) {
  ExitStatus exit;
  exit.signalled = WIFSIGNALED(status);
  exit.number = exit.signalled ? WTERMSIG(status) : WEXITSTATUS(status);
  return exit;
}

// `head` needs only its kind and number.
std::vector<char> messageOf(KeeperHead head, const std::vector<const std::string*>& texts) {
  head.texts = static_cast<std::uint32_t>(texts.size());
  std::vector<char> bytes(sizeof head);
  std::memcpy(bytes.data(), &head, sizeof head);
  for (const std::string* text : texts) append(bytes, *text);
  return bytes;
}

}  // namespace

void Keeper::State::send(const std::vector<char>& bytes, std::span<const int> descriptors) {
  iovec part{const_cast<char*>(bytes.data()), bytes.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE((3 + kMaxNamespaces) * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size_bytes());
  }
  while (::sendmsg(socket.get(), &message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
  }
}

std::shared_ptr<Keeper::State::Started> Keeper::State::expect(KeeperHead& head) {
  const auto started = std::make_shared<Started>();
  const std::lock_guard lock(mutex);
  head.id = next_id++;
  starting.emplace(head.id, started);
  return started;
}

void Keeper::State::handle(const KeeperHead& head) {
  const std::lock_guard lock(mutex);
  if (head.kind == KeeperMessage::Ended) {
    const ExitStatus status = statusOf(head.number);
    const auto [first, last] = waiting.equal_range(head.process);
    for (auto place = first; place != last; ++place) place->second->set(status);
    waiting.erase(first, last);
    ended.emplace_back(head.process, status);
    if (ended.size() > kRememberedEnds) ended.pop_front();
    return;
  }
  const auto place = starting.find(head.id);
  if (place == starting.end()) return;
  const std::shared_ptr<Started> started = std::move(place->second);
  starting.erase(place);
  if (head.kind == KeeperMessage::Started) {
    // An end under the same number that nobody asked for was another process's.
    std::erase_if(ended, [&](const auto& one) { return one.first == head.process; });
    started->set(head.process);
  } else {
    started->set(Error(Code::Unavailable, fmt::format("the program could not be started: {}",
                                                      std::strerror(head.number))));
  }
}

void Keeper::State::giveUp() {
  const std::lock_guard lock(mutex);
  for (const auto& [id, started] : std::exchange(starting, {})) {
    started->set(Error(Code::Unavailable, "the keeper of processes has gone"));
  }
}

namespace {

// Owns its end of the socket: that goes with the context it is read on, before or after the Keeper.
Task<> listenTo(std::shared_ptr<Keeper::State> state, int socket) {
  asio::posix::stream_descriptor descriptor(co_await asio::this_coro::executor, socket);
  const auto token = asio::as_tuple(asio::use_awaitable);
  while (true) {
    KeeperHead head;
    const auto [failed, size] =
        co_await descriptor.async_read_some(asio::buffer(&head, sizeof head), token);
    if (failed || size < sizeof head) break;
    state->handle(head);
  }
  state->giveUp();
}

}  // namespace

Keeper::Keeper(std::shared_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Keeper>> Keeper::start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return Error(Code::Internal, fmt::format("no socket for the keeper: {}", std::strerror(errno)));
  }
  for (const int end : ends) {
    const int size = 4 * static_cast<int>(kMaxKeeperMessage);
    ::setsockopt(end, SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
  }
  auto state = std::make_shared<State>();
  if (auto filter = makeSystemCallFilter()) state->filter = *std::move(filter);
  const pid_t process = ::fork();
  if (process < 0) {
    const int reason = errno;
    for (const int end : ends) ::close(end);
    return Error(Code::Internal, fmt::format("no keeper: {}", std::strerror(reason)));
  }
  if (process == 0) {
    ::close(ends[0]);
    runKeeper(ends[1], state->filter);
  }
  ::close(ends[1]);
  state->process = process;
  state->socket.reset(ends[0]);
  return std::unique_ptr<Keeper>(new Keeper(std::move(state)));
}

Keeper::~Keeper() {
  ::shutdown(state_->socket.get(), SHUT_RDWR);
  state_->socket.reset();
  while (::waitpid(state_->process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Keeper::listen(const asio::any_io_executor& executor) {
  const int socket = ::fcntl(state_->socket.get(), F_DUPFD_CLOEXEC, 0);
  asio::co_spawn(executor, listenTo(state_, socket), asio::detached);
}

Task<Result<pid_t>> Keeper::spawn(Command command, Channels channels,
                                  std::span<const Descriptor> namespaces) {
  std::vector<const std::string*> texts;
  for (const std::string& argument : command.arguments) texts.push_back(&argument);
  for (const std::string& variable : command.environment) texts.push_back(&variable);
  texts.push_back(&command.directory);
  KeeperHead head;
  head.kind = KeeperMessage::Start;
  head.number = static_cast<std::int32_t>(command.arguments.size());
  if (messageOf(head, texts).size() > kMaxKeeperMessage) {
    co_return Error(Code::InvalidArgument, "the environment is too large");
  }
  std::vector<int> descriptors = {channels.socket.get(), channels.out.get(), channels.err.get()};
  for (const Descriptor& one : namespaces) descriptors.push_back(one.get());
  const auto started = state_->expect(head);
  state_->send(messageOf(head, texts), descriptors);
  co_return co_await started->wait(started);
}

Task<Result<pid_t>> Keeper::beginCell(const CellContents& contents, Network network,
                                      Descriptor control) {
  std::vector<const std::string*> texts = {&contents.code};
  for (const CellContents::Seen& one : contents.seen) {
    texts.push_back(&one.path);
    texts.push_back(&one.place);
  }
  KeeperHead head;
  head.kind = KeeperMessage::Cell;
  head.number = network == Network::Hosts ? 1 : 0;
  const auto started = state_->expect(head);
  const std::array<int, 1> descriptors = {control.get()};
  state_->send(messageOf(head, texts), descriptors);
  co_return co_await started->wait(started);
}

const SystemCallFilter& Keeper::filter() const {
  return state_->filter;
}

void Keeper::kill(pid_t process) {
  KeeperHead head;
  head.kind = KeeperMessage::Kill;
  head.process = process;
  std::vector<char> bytes(sizeof head);
  std::memcpy(bytes.data(), &head, sizeof head);
  state_->send(bytes, {});
}

Task<Result<ExitStatus>> Keeper::exitOf(pid_t process, std::chrono::milliseconds patience) {
  const auto ended = std::make_shared<State::Ended>();
  {
    const std::lock_guard lock(state_->mutex);
    for (auto place = state_->ended.rbegin(); place != state_->ended.rend(); ++place) {
      if (place->first == process) co_return place->second;
    }
    state_->waiting.emplace(process, ended);
  }
  // Whoever comes first decides; the other finds the waiter gone.
  asio::steady_timer timer(co_await asio::this_coro::executor, patience);
  timer.async_wait([state = state_, process, ended](const boost::system::error_code& failed) {
    if (failed) return;
    const std::lock_guard lock(state->mutex);
    const auto [first, last] = state->waiting.equal_range(process);
    for (auto place = first; place != last; ++place) {
      if (place->second != ended) continue;
      state->waiting.erase(place);
      ended->set(Error(Code::Unavailable, "it has not ended"));
      return;
    }
  });
  co_return co_await ended->wait(ended);
}

}  // namespace nimbus::runtime
