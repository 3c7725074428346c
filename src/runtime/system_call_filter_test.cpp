#include "runtime/system_call_filter.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

namespace nimbus::runtime {
namespace {

// What the call fails with in a child that has the filter; 0 if it does not fail.
template <typename Call>
int errorOf(Call call) {
  const auto filter = makeSystemCallFilter();
  if (!filter) return -1;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (!install(*filter)) ::_exit(255);
    errno = 0;
    ::_exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -2;
}

TEST(SystemCallFilterTest, RefusesWhatIsNoFunctionsBusiness) {
  EXPECT_EQ(errorOf([] { return ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::unshare(CLONE_NEWUSER); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::unshare(CLONE_FILES | CLONE_NEWNS); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::syscall(SYS_clone, CLONE_NEWNET | SIGCHLD, 0, 0, 0, 0); }),
            EPERM);
  EXPECT_EQ(errorOf([] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
  EXPECT_EQ(errorOf([] { return ::chroot("/"); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::memfd_create("x", 0); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::socket(AF_INET, SOCK_RAW, 1); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 1); }), EPERM);
  EXPECT_EQ(errorOf([] { return ::socket(AF_PACKET, SOCK_DGRAM, 0); }), EAFNOSUPPORT);
  EXPECT_EQ(errorOf([] { return ::socket(AF_VSOCK, SOCK_STREAM, 0); }), EAFNOSUPPORT);
}

TEST(SystemCallFilterTest, LetsThroughWhatProgramsNeed) {
  EXPECT_EQ(errorOf([] { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }), 0);
  EXPECT_EQ(errorOf([] { return ::socket(AF_UNIX, SOCK_DGRAM, 0); }), 0);
  EXPECT_EQ(errorOf([] { return ::unshare(CLONE_FILES); }), 0);
  EXPECT_EQ(errorOf([] { return ::fork() >= 0 ? 0 : -1; }), 0);
}

}  // namespace
}  // namespace nimbus::runtime
