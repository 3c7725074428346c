#include "function/turns.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <gmock/gmock.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::function {
namespace {

namespace asio = boost::asio;

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class TurnsTest : public ::testing::Test {
 protected:
  // Has its turn until finish().
  struct Holder {
    OneShotEvent done;
    asio::cancellation_signal cancel;
  };

  std::unique_ptr<Holder> begin(const std::string& name) {
    auto holder = std::make_unique<Holder>();
    asio::co_spawn(io_, hold(name, *holder),
                   asio::bind_cancellation_slot(holder->cancel.slot(), asio::detached));
    settle();
    return holder;
  }
  void finish(Holder& holder) {
    holder.done.set();
    settle();
  }
  void settle() {
    io_.restart();
    io_.poll();
  }

  Task<> hold(std::string name, Holder& holder) {
    const Turns::Turn turn = co_await turns_.take();
    started_.push_back(name);
    co_await holder.done.wait();
  }

  asio::io_context io_;
  Turns turns_;
  std::vector<std::string> started_;
};

TEST_F(TurnsTest, ComeOneAtATimeAndInOrder) {
  const auto a = begin("a");
  const auto b = begin("b");
  const auto c = begin("c");
  EXPECT_THAT(started_, ElementsAre("a"));
  finish(*a);
  EXPECT_THAT(started_, ElementsAre("a", "b"));
  finish(*b);
  finish(*c);
  EXPECT_THAT(started_, ElementsAre("a", "b", "c"));
}

TEST_F(TurnsTest, AreFreeAgainWhenAllHaveEnded) {
  finish(*begin("a"));
  finish(*begin("b"));
  EXPECT_THAT(started_, ElementsAre("a", "b"));
}

TEST_F(TurnsTest, WhoeverIsCancelledWhileHeWaitsHoldsNobodyUp) {
  const auto a = begin("a");
  const auto b = begin("b");
  const auto c = begin("c");
  b->cancel.emit(asio::cancellation_type::terminal);
  settle();
  finish(*a);
  EXPECT_THAT(started_, ::testing::Contains("c"));
  if (std::find(started_.begin(), started_.end(), "b") != started_.end()) finish(*b);
  finish(*c);
}

TEST_F(TurnsTest, WhoeverIsGoneBeforeHisTurnHoldsNobodyUp) {
  const auto a = begin("a");
  {
    Turns::Turn waiting(turns_);
    const auto c = begin("c");
    EXPECT_THAT(started_, ElementsAre("a"));
    finish(*a);
    EXPECT_THAT(started_, ElementsAre("a")) << "it is the turn of the one between";
    {
      const Turns::Turn moved = std::move(waiting);
      EXPECT_THAT(started_, ElementsAre("a"));
    }
    settle();
    EXPECT_THAT(started_, ElementsAre("a", "c"));
    finish(*c);
  }
}

Task<> count(Turns& turns, int& counter, int rounds) {
  for (int i = 0; i < rounds; ++i) {
    const Turns::Turn turn = co_await turns.take();
    const int before = counter;
    co_await asio::post(co_await asio::this_coro::executor, asio::use_awaitable);
    counter = before + 1;
  }
}

TEST(TurnsOnThreadsTest, NoTwoHaveTheirTurnAtOnce) {
  constexpr int kThreads = 4;
  constexpr int kRounds = 500;
  Turns turns;
  int counter = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      asio::io_context io(1);
      for (int task = 0; task < 2; ++task) {
        asio::co_spawn(io, count(turns, counter, kRounds), asio::detached);
      }
      io.run();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(counter, kThreads * 2 * kRounds);
}

}  // namespace
}  // namespace nimbus::function
