#include "cluster/process_identity.h"

#include <gtest/gtest.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace nimbus::cluster {
namespace {

TEST(ProcessIdentity, OneThatRunsIsNotGone) {
  EXPECT_FALSE(isGone(ProcessIdentity::own()));
}

TEST(ProcessIdentity, AnotherOfTheSamePidIsNotIt) {
  ProcessIdentity before = ProcessIdentity::own();
  before.start -= 1;
  EXPECT_TRUE(isGone(before));
}

TEST(ProcessIdentity, OfAnotherMachineNothingIsKnown) {
  ProcessIdentity other = ProcessIdentity::own();
  other.machine += "x";
  other.start -= 1;
  EXPECT_FALSE(isGone(other));
  EXPECT_FALSE(isGone(ProcessIdentity()));
}

// Asked by the child itself, so that its start is known; then by us, about the child.
TEST(ProcessIdentity, AChildIsGoneWhenItHasEndedAndNotWhenItIsStopped) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::uint64_t start = ProcessIdentity::own().start;
    static_cast<void>(!::write(ends[1], &start, sizeof start));
    ::pause();
    ::_exit(0);
  }
  ProcessIdentity identity = ProcessIdentity::own();
  identity.pid = child;
  ASSERT_EQ(::read(ends[0], &identity.start, sizeof identity.start),
            static_cast<ssize_t>(sizeof identity.start));
  EXPECT_FALSE(isGone(identity));
  ::kill(child, SIGSTOP);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, WUNTRACED), child);
  EXPECT_FALSE(isGone(identity)) << "it may go on";
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_TRUE(isGone(identity)) << "a zombie does nothing more";
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(isGone(identity));
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace nimbus::cluster
