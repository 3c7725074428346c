#include "base/one_shot.h"

#include "base/result.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace nimbus {
namespace {

namespace asio = boost::asio;

template <typename T>
Task<> receive(OneShot<T>& from, std::optional<T>& into) {
  into.emplace(co_await from.wait());
}

TEST(OneShotTest, AValueSetBeforeTheWaitIsThereAtOnce) {
  asio::io_context io;
  OneShot<int> shot;
  shot.set(7);
  std::optional<int> got;
  asio::co_spawn(io, receive(shot, got), asio::detached);
  io.poll();
  EXPECT_EQ(got, 7);
}

TEST(OneShotTest, SettingDoesNotRunTheWaitingTaskOnTheSettersStack) {
  asio::io_context io;
  OneShot<int> shot;
  std::optional<int> got;
  asio::co_spawn(io, receive(shot, got), asio::detached);
  io.poll();
  EXPECT_FALSE(got);

  shot.set(7);
  EXPECT_TRUE(shot.isSet());
  EXPECT_FALSE(got);
  io.restart();
  io.poll();
  EXPECT_EQ(got, 7);
}

TEST(OneShotTest, CarriesWhatCanOnlyBeMoved) {
  asio::io_context io;
  OneShot<std::unique_ptr<std::string>> shot;
  shot.set(std::make_unique<std::string>("moved"));
  std::optional<std::unique_ptr<std::string>> got;
  asio::co_spawn(io, receive(shot, got), asio::detached);
  io.poll();
  EXPECT_EQ(**got, "moved");
}

// run() returns when there is no work left: a waiting task must count as work, although nothing of
// its context has anything to do until the other thread sets.
TEST(OneShotTest, AWaitingTaskKeepsItsContextRunning) {
  asio::io_context io;
  OneShot<int> shot;
  std::optional<int> got;
  asio::co_spawn(io, receive(shot, got), asio::detached);
  io.poll();
  EXPECT_FALSE(io.stopped());
  std::thread setter([&] { shot.set(3); });
  io.run();
  setter.join();
  EXPECT_EQ(got, 3);
}

TEST(OneShotTest, SettingTwiceIsABug) {
  OneShotEvent event;
  event.set();
  EXPECT_DEATH(event.set(), "set twice");
}

Task<> receiveAll(std::vector<OneShot<std::string>>& shots, std::vector<std::string>& got) {
  for (OneShot<std::string>& shot : shots) got.push_back(co_await shot.wait());
}

// set() and wait() meet in every order there is: the setter runs free beside the waiting thread.
TEST(OneShotTest, ManyHandoversBetweenThreadsLoseNothing) {
  constexpr std::size_t kRounds = 50;
  constexpr std::size_t kShots = 500;
  for (std::size_t round = 0; round < kRounds; ++round) {
    asio::io_context io;
    std::vector<OneShot<std::string>> shots(kShots);
    std::vector<std::string> got;
    asio::co_spawn(io, receiveAll(shots, got), asio::detached);
    std::thread setter([&] {
      for (std::size_t i = 0; i < kShots; ++i) shots[i].set("value number " + std::to_string(i));
    });
    io.run();
    setter.join();
    ASSERT_EQ(got.size(), kShots);
    for (std::size_t i = 0; i < kShots; ++i) {
      ASSERT_EQ(got[i], "value number " + std::to_string(i));
    }
  }
}

Task<> receiveOwned(std::unique_ptr<OneShot<int>> shot, int& sum) {
  sum += co_await shot->wait();
}

// The waiting task owns the event and destroys it as soon as it has the value; set() must not touch
// the event after that.
TEST(OneShotTest, TheEventMayGoAsSoonAsTheValueIsThere) {
  constexpr int kShots = 20'000;
  asio::io_context io;
  int sum = 0;
  std::vector<OneShot<int>*> shots;
  for (int i = 0; i < kShots; ++i) {
    auto shot = std::make_unique<OneShot<int>>();
    shots.push_back(shot.get());
    asio::co_spawn(io, receiveOwned(std::move(shot), sum), asio::detached);
  }
  std::thread setter([&] {
    for (OneShot<int>* shot : shots) shot->set(1);
  });
  io.run();
  setter.join();
  EXPECT_EQ(sum, kShots);
}

}  // namespace
}  // namespace nimbus
