#include "runtime/keeper_process.h"

#include "runtime/cell_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::runtime {
namespace {

constexpr std::size_t kDescriptors = 3;  // to become 3, 1 and 2
constexpr std::size_t kMaxDescriptors = kDescriptors + kMaxNamespaces;

struct Start {
  KeeperHead head;
  std::vector<char*> arguments;
  std::vector<char*> environment;
  const char* directory = nullptr;
  std::vector<int> descriptors;

  std::span<const int> namespaces() const { return std::span(descriptors).subspan(kDescriptors); }
};

// What a started process tells the keeper, which reads until the pipe is closed by exec or exit.
struct Told {
  pid_t process = 0;  // the one that is in the cell
  int error = 0;
};

void tell(int pipe, Told told) {
  static_cast<void>(!::write(pipe, &told, sizeof told));
}

void setLimit(int which, rlim_t value) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource_t>(which), &limit) != 0) return;
  limit.rlim_max = std::min(limit.rlim_max, value);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(static_cast<__rlimit_resource_t>(which), &limit);
}

// Limits that hold wherever a process runs.
void setLimits() {
  setLimit(RLIMIT_CORE, 0);
  setLimit(RLIMIT_NOFILE, 1024);
  setLimit(RLIMIT_NPROC, 4096);  // of the user's, who may have others
  // If memory runs out it is a function that has to go, not the server.
  if (const int file = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC); file >= 0) {
    static_cast<void>(!::write(file, "1000", 4));
    ::close(file);
  }
}

// In the child, between fork and exec. Returns only if it fails, with errno set.
void become(const Start& start, const SystemCallFilter& filter) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(ignored, SIG_DFL);
  ::setsid();

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
  if (!start.namespaces().empty() && !confine(filter)) return;
  if (::chdir(start.directory) != 0) return;
  ::execve(start.arguments.front(), start.arguments.data(), start.environment.data());
}

// In a child of the keeper's. A cell's processes end with the cell, others with the keeper.
[[noreturn]] void startHere(const Start& start, pid_t keeper, const SystemCallFilter& filter,
                            int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != keeper) ::_exit(127);  // it died before that was set
  setLimits();
  become(start, filter);
  tell(pipe, {0, errno});
  ::_exit(127);
}

// In a child of the keeper's, which leaves the one it forks in the cell to the keeper.
[[noreturn]] void startInCell(const Start& start, const SystemCallFilter& filter, int pipe) {
  setLimits();
  if (!enterCell(start.namespaces())) {
    tell(pipe, {0, errno});
    ::_exit(127);
  }
  const pid_t inside = ::fork();
  if (inside == 0) {
    become(start, filter);
    tell(pipe, {0, errno});
    ::_exit(127);
  }
  tell(pipe, {inside, inside < 0 ? errno : 0});
  ::_exit(0);
}

bool writeTo(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (file < 0) return false;
  const bool written = ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int reason = errno;
  ::close(file);
  errno = reason;
  return written;
}

// Who the user inside a cell is outside: ourselves, or nobody if we are root.
bool mapUsers(pid_t cell) {
  const std::string process = "/proc/" + std::to_string(cell) + "/";
  const bool is_root = ::geteuid() == 0;
  const auto line = [&](unsigned own) {
    return std::to_string(kUserInside) + " " + std::to_string(is_root ? kNobody : own) + " 1";
  };
  if (!is_root && !writeTo(process + "setgroups", "deny")) return false;
  return writeTo(process + "gid_map", line(::getegid())) &&
         writeTo(process + "uid_map", line(::geteuid()));
}

class KeeperLoop {
 public:
  KeeperLoop(int socket, const SystemCallFilter& filter)
      : socket_(socket), filter_(filter), self_(::getpid()) {}

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
    alignas(cmsghdr) std::array<char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
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
      start(head, static_cast<std::size_t>(size), descriptorsIn(message));
    } else if (head.kind == KeeperMessage::Cell) {
      makeCell(head, static_cast<std::size_t>(size), descriptorsIn(message));
    }
    return true;
  }

  static std::vector<int> descriptorsIn(msghdr& message) {
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return {};
    std::vector<int> descriptors((rights->cmsg_len - CMSG_LEN(0)) / sizeof(int));
    std::memcpy(descriptors.data(), CMSG_DATA(rights), descriptors.size() * sizeof(int));
    return descriptors;
  }

  // What the message in the buffer holds behind its head.
  std::vector<char*> textsIn(const KeeperHead& head, std::size_t size) {
    std::vector<char*> texts;
    char* at = buffer_.data() + sizeof(KeeperHead);
    const char* const end = buffer_.data() + size;
    while (texts.size() < head.texts && at < end) {
      texts.push_back(at);
      at += std::strlen(at) + 1;
    }
    return texts;
  }

  void start(const KeeperHead& head, std::size_t size, std::vector<int> descriptors) {
    Start start;
    start.head = head;
    start.descriptors = std::move(descriptors);
    const std::vector<char*> texts = textsIn(head, size);
    if (start.descriptors.size() < kDescriptors || texts.empty()) return;
    const auto arguments = texts.begin() + head.number;
    start.arguments.assign(texts.begin(), arguments);
    start.environment.assign(arguments, texts.end() - 1);
    start.directory = texts.back();
    start.arguments.push_back(nullptr);
    start.environment.push_back(nullptr);

    const Told told = fork(start);
    for (const int descriptor : start.descriptors) ::close(descriptor);
    answer(head, told);
  }

  Told fork(const Start& start) const {
    std::array<int, 2> pipe{};
    if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return {0, errno};
    const bool in_cell = !start.namespaces().empty();
    const pid_t child = ::fork();
    if (child == 0 && in_cell) startInCell(start, filter_, pipe[1]);
    if (child == 0) startHere(start, self_, filter_, pipe[1]);
    Told all{in_cell ? 0 : child, child < 0 ? errno : 0};
    ::close(pipe[1]);
    for (Told told; child > 0 && ::read(pipe[0], &told, sizeof told) == sizeof told;) {
      if (told.process > 0) all.process = told.process;
      if (told.error != 0) all.error = told.error;
    }
    ::close(pipe[0]);
    if (child > 0 && in_cell) ::waitpid(child, nullptr, 0);
    return all;
  }

  void makeCell(const KeeperHead& head, std::size_t size, const std::vector<int>& descriptors) {
    const std::vector<char*> texts = textsIn(head, size);
    if (descriptors.size() != 1 || texts.empty()) return;
    CellPlan plan;
    plan.has_network = head.number != 0;
    plan.code = texts.front();
    for (std::size_t i = 1; i + 1 < texts.size(); i += 2) {
      plan.seen.emplace_back(texts[i], texts[i + 1]);
    }
    answer(head, cloneCell(descriptors.front(), plan));
    ::close(descriptors.front());
  }

  Told cloneCell(int control, const CellPlan& plan) const {
    std::array<int, 2> go{};
    if (::pipe2(go.data(), O_CLOEXEC) != 0) return {0, errno};
    // The rest of its namespaces it takes itself: those take long.
    const auto cell = static_cast<pid_t>(
        ::syscall(SYS_clone, CLONE_NEWUSER | CLONE_NEWPID | SIGCHLD, nullptr, nullptr, nullptr, 0));
    if (cell == 0) {
      ::close(go[1]);
      char word = 0;
      if (::read(go[0], &word, 1) != 1) ::_exit(1);
      const int high = ::fcntl(control, F_DUPFD_CLOEXEC, 4);
      ::dup2(high, 3);  // the keeper's own, which would keep the server's end from being noticed
      ::syscall(SYS_close_range, 4U, ~0U, 0U);
      runCell(3, plan);
    }
    Told told{cell, cell < 0 ? errno : 0};
    if (cell > 0 && !mapUsers(cell)) told.error = errno;
    if (told.error == 0) static_cast<void>(!::write(go[1], "!", 1));
    ::close(go[0]);
    ::close(go[1]);
    return told;
  }

  void answer(const KeeperHead& asked, Told told) const {
    KeeperHead answer;
    answer.id = asked.id;
    answer.kind = told.error == 0 ? KeeperMessage::Started : KeeperMessage::Failed;
    answer.process = told.process;
    answer.number = told.error;
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
  const SystemCallFilter& filter_;
  const pid_t self_;
  std::vector<char> buffer_;
};

}  // namespace

void runKeeper(int socket, const SystemCallFilter& filter) {
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
  KeeperLoop loop(socket, filter);
  loop.run();
  loop.endAll();
  ::_exit(0);
}

}  // namespace nimbus::runtime
