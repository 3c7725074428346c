#include "cli/child_server.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <utility>

namespace nimbus::cli {
namespace {

Error systemError(const char* what) {
  return {Code::Unavailable, std::string(what) + ": " + std::generic_category().message(errno)};
}

// What a child does before it is a server; only what is safe between fork and exec.
[[noreturn]] void become(char* const* arguments, int out, int err, pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  ::setpgid(0, 0);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  ::dup2(nothing, STDIN_FILENO);
  ::dup2(out, STDOUT_FILENO);
  ::dup2(err, STDERR_FILENO);
  ::execv("/proc/self/exe", arguments);
  ::_exit(127);
}

}  // namespace

Result<ChildServer> ChildServer::start(const std::vector<std::string>& arguments) {
  std::vector<std::string> words = {"nimbus"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  std::array<int, 2> out{};
  std::array<int, 2> err{};
  if (::pipe2(out.data(), O_CLOEXEC) != 0) return systemError("pipe");
  if (::pipe2(err.data(), O_CLOEXEC) != 0) {
    ::close(out[0]);
    ::close(out[1]);
    return systemError("pipe");
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid == 0) become(pointers.data(), out[1], err[1], parent);
  ::close(out[1]);
  ::close(err[1]);
  if (pid > 0) return ChildServer(pid, out[0], err[0]);
  const Error failed = systemError("fork");
  ::close(out[0]);
  ::close(err[0]);
  return failed;
}

ChildServer::ChildServer(ChildServer&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, -1)),
      err_(std::exchange(other.err_, -1)) {}

ChildServer::~ChildServer() {
  if (pid_ > 0) {
    ::kill(pid_, SIGKILL);
    join();
  }
  if (out_ >= 0) ::close(out_);
  if (err_ >= 0) ::close(err_);
}

void ChildServer::stop() const {
  if (pid_ > 0) ::kill(pid_, SIGTERM);
}

void ChildServer::join() {
  while (pid_ > 0 && ::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

}  // namespace nimbus::cli
