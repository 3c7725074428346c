#include "runtime/keeper_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::runtime {
namespace {

constexpr std::size_t kDescriptors = 3;  // to become 3, 1 and 2

struct Start {
  KeeperHead head;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const char* directory = nullptr;
  std::array<int, kDescriptors> descriptors{};
};

// In the child, between fork and exec. Returns only if it fails, with errno set.
void become(const Start& start, pid_t keeper) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_DFL);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(127);  // it died before that was set
  ::setsid();
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  // Above all that they may become, so that none is overwritten before it is used.
  constexpr int kAbove = 64;
  std::array<int, kDescriptors> high{};
  for (std::size_t i = 0; i < kDescriptors; ++i) {
    high[i] = ::fcntl(start.descriptors[i], F_DUPFD_CLOEXEC, kAbove);
    if (high[i] < 0) return;
  }
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  if (::dup2(nothing, 0) < 0 || ::dup2(high[0], 3) < 0 || ::dup2(high[1], 1) < 0 ||
      ::dup2(high[2], 2) < 0) {
    return;
  }
  ::syscall(SYS_close_range, 4U, ~0U, 4U /* CLOSE_RANGE_CLOEXEC */);
  if (::chdir(start.directory) != 0) return;
  ::execve(start.arguments.front(), start.arguments.data(), start.environment.data());
}

class KeeperLoop {
 public:
  explicit KeeperLoop(int socket) : socket_(socket), self_(::getpid()) {}

  void run() {
    sigset_t child_ended;
    sigemptyset(&child_ended);
    sigaddset(&child_ended, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child_ended, nullptr);
    const int signals = ::signalfd(-1, &child_ended, SFD_CLOEXEC | SFD_NONBLOCK);
    while (true) {
      std::array<pollfd, 2> waiting = {pollfd{socket_, POLLIN, 0}, pollfd{signals, POLLIN, 0}};
      if (::poll(waiting.data(), waiting.size(), -1) < 0 && errno != EINTR) return;
      if (waiting[1].revents != 0) {
        signalfd_siginfo ignored{};
        while (::read(signals, &ignored, sizeof ignored) > 0) {
        }
        reap();
      }
      if (waiting[0].revents != 0 && !receive()) return;
    }
  }

  // Whatever is killed leaves its children to us, so this goes on until there are none.
  void endAll() {
    while (true) {
      killChildren();
      const pid_t ended = ::waitpid(-1, nullptr, 0);
      if (ended < 0 && errno == ECHILD) return;
    }
  }

 private:
  // False: the server has gone.
  bool receive() {
    buffer_.resize(kMaxKeeperMessage);
    iovec bytes{buffer_.data(), buffer_.size()};
    std::array<char, CMSG_SPACE(kDescriptors * sizeof(int))> control{};
    msghdr message{};
    message.msg_iov = &bytes;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    const ssize_t size = ::recvmsg(socket_, &message, MSG_CMSG_CLOEXEC);
    if (size < 0) return errno == EINTR;
    if (static_cast<std::size_t>(size) < sizeof(KeeperHead)) return false;
    KeeperHead head;
    std::memcpy(&head, buffer_.data(), sizeof head);
    if (head.kind == KeeperMessage::Kill) {
      kill(head.process);
    } else if (head.kind == KeeperMessage::Start) {
      start(head, static_cast<std::size_t>(size), message);
    }
    return true;
  }

  void start(const KeeperHead& head, std::size_t size, msghdr& message) {
    Start start;
    start.head = head;
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights == nullptr || rights->cmsg_len != CMSG_LEN(kDescriptors * sizeof(int))) return;
    std::memcpy(start.descriptors.data(), CMSG_DATA(rights), kDescriptors * sizeof(int));
    char* at = buffer_.data() + sizeof(KeeperHead);
    const char* const end = buffer_.data() + size;
    for (std::uint32_t i = 0; i < head.texts && at < end; ++i) {
      if (i + 1 == head.texts) {
        start.directory = at;
      } else {
        auto& list =
            i < static_cast<std::uint32_t>(head.number) ? start.arguments : start.environment;
        list.push_back(at);
      }
      at += std::strlen(at) + 1;
    }
    start.arguments.push_back(nullptr);
    start.environment.push_back(nullptr);

    // The child says through it why it could not; that it could closes it.
    std::array<int, 2> failure{};
    pid_t child = -1;
    int reason = 0;
    if (::pipe2(failure.data(), O_CLOEXEC) != 0) {
      reason = errno;
    } else {
      child = ::fork();
      if (child == 0) {
        become(start, self_);
        reason = errno;
        static_cast<void>(!::write(failure[1], &reason, sizeof reason));
        ::_exit(127);
      }
      if (child < 0) reason = errno;
      ::close(failure[1]);
      if (child > 0 && ::read(failure[0], &reason, sizeof reason) != sizeof reason) reason = 0;
      ::close(failure[0]);
    }
    for (const int descriptor : start.descriptors) ::close(descriptor);
    KeeperHead answer;
    answer.id = head.id;
    answer.kind = reason == 0 ? KeeperMessage::Started : KeeperMessage::Failed;
    answer.process = child;
    answer.number = reason;
    send(answer);
  }

  void kill(pid_t process) const {
    siginfo_t ended{};
    const bool is_ours = process > 1 && ::waitid(P_PID, static_cast<id_t>(process), &ended,
                                                 WEXITED | WNOHANG | WNOWAIT) == 0;
    if (!is_ours) return;
    ::kill(-process, SIGKILL);
    ::kill(process, SIGKILL);
  }

  void reap() {
    int status = 0;
    for (pid_t ended = 0; (ended = ::waitpid(-1, &status, WNOHANG)) > 0;) {
      ::kill(-ended, SIGKILL);  // what is left of its group
      KeeperHead message;
      message.kind = KeeperMessage::Ended;
      message.process = ended;
      message.number = status;
      send(message);
    }
  }

  void send(const KeeperHead& message) const {
    while (::send(socket_, &message, sizeof message, MSG_NOSIGNAL) < 0 && errno == EINTR) {
    }
  }

  void killChildren() const {
    const std::string self = std::to_string(self_);
    std::ifstream children("/proc/" + self + "/task/" + self + "/children");
    for (pid_t child = 0; children >> child;) {
      ::kill(-child, SIGKILL);
      ::kill(child, SIGKILL);
    }
  }

  const int socket_;
  const pid_t self_;
  std::vector<char> buffer_;
};

}  // namespace

void runKeeper(int socket) {
  ::prctl(PR_SET_NAME, "nimbus-keeper");
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::setsid();  // a Ctrl-C at the server's terminal is not for us
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_IGN);
  // Nothing of the server's is ours but the socket and what it logs to.
  if (socket != 3) {
    ::dup2(socket, 3);
    ::fcntl(3, F_SETFD, FD_CLOEXEC);
    socket = 3;
  }
  ::syscall(SYS_close_range, 4U, ~0U, 0U);
  KeeperLoop loop(socket);
  loop.run();
  loop.endAll();
  ::_exit(0);
}

}  // namespace nimbus::runtime
