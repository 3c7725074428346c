#include "store/sqlite/turnstile.h"

#include "base/testing/temporary_directory.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nimbus::store::sqlite {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// The locks belong to the open file: two Turnstiles of one process are to each other as those of
// two.
class TurnstileTest : public ::testing::Test {
 protected:
  Turnstile open() { return *Turnstile::open(directory_.path() / "turnstile"); }

  TemporaryDirectory directory_;
};

TEST_F(TurnstileTest, WhoeverIsAloneEntersAtOnceAndAgain) {
  Turnstile turnstile = open();
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(turnstile.enter(0ms));
}

TEST_F(TurnstileTest, OneIsInsideAtATime) {
  Turnstile ours = open();
  Turnstile theirs = open();
  auto pass = theirs.enter(0ms);
  ASSERT_TRUE(pass);
  EXPECT_FALSE(ours.enter(0ms));
  pass.reset();
  EXPECT_TRUE(ours.enter(0ms));
}

TEST_F(TurnstileTest, AWaitEndsAtItsDeadlineThoughTheTurnNeverComes) {
  Turnstile ours = open();
  Turnstile theirs = open();
  const auto pass = theirs.enter(0ms);
  const auto start = Steady::now();
  EXPECT_FALSE(ours.enter(100ms));
  EXPECT_GE(Steady::now() - start, 100ms);
  EXPECT_LT(Steady::now() - start, 5s);
}

TEST_F(TurnstileTest, WhoeverGivesUpIsInNobodysWay) {
  Turnstile frozen = open();
  Turnstile impatient = open();
  Turnstile patient = open();
  auto pass = frozen.enter(0ms);
  EXPECT_FALSE(impatient.enter(1ms));
  pass.reset();
  EXPECT_TRUE(patient.enter(0ms)) << "the place before the gate is still taken";
}

TEST_F(TurnstileTest, WhoeverWaitsIsLetInWhenItIsItsTurn) {
  Turnstile ours = open();
  Turnstile theirs = open();
  auto pass = theirs.enter(0ms);
  std::thread waiter([&] { EXPECT_TRUE(ours.enter(30s)); });
  pass.reset();
  waiter.join();
}

TEST_F(TurnstileTest, ManyWhoComeAgainAndAgainAllGetTheirTurnsAndNeverTogether) {
  constexpr int kTurns = 200;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Turnstile turnstile = open();
      for (int turn = 0; turn < kTurns; ++turn) {
        const auto pass = turnstile.enter(30s);
        ASSERT_TRUE(pass);
        EXPECT_EQ(++inside, 1);
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace nimbus::store::sqlite
