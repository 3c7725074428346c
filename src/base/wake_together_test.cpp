#include "base/wake_together.h"

#include <gtest/gtest.h>

#include <thread>

namespace nimbus {
namespace {

struct Counter final : Sleeper {
  void wake() override { ++woken; }
  int woken = 0;
};

TEST(WakeTogether, WithoutOneASleeperIsWokenAtOnce) {
  Counter sleeper;
  WakeTogether::wake(sleeper);
  WakeTogether::wake(sleeper);
  EXPECT_EQ(sleeper.woken, 2);
}

TEST(WakeTogether, EachSleeperIsWokenOnceWhenItEnds) {
  Counter one;
  Counter other;
  {
    const WakeTogether together;
    WakeTogether::wake(one);
    WakeTogether::wake(other);
    WakeTogether::wake(one);
    EXPECT_EQ(one.woken + other.woken, 0);
  }
  EXPECT_EQ(one.woken, 1);
  EXPECT_EQ(other.woken, 1);
  WakeTogether::wake(one);
  EXPECT_EQ(one.woken, 2);
}

TEST(WakeTogether, OtherThreadsAreNotHeldBack) {
  Counter sleeper;
  const WakeTogether together;
  std::thread([&] { WakeTogether::wake(sleeper); }).join();
  EXPECT_EQ(sleeper.woken, 1);
}

}  // namespace
}  // namespace nimbus
