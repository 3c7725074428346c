#include "base/together.h"

#include "base/one_shot.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <stdexcept>
#include <string>

namespace nimbus {
namespace {

using ::testing::ElementsAre;

Task<> waitAndNote(OneShotEvent& event, std::vector<std::string>& notes, std::string name) {
  notes.push_back("begin " + name);
  co_await event.wait();
  notes.push_back("end " + name);
}

Task<> fail() {
  throw std::runtime_error("no");
  co_return;
}

Task<> gather(std::vector<Task<>> tasks, std::vector<std::string>& notes) {
  co_await together(std::move(tasks));
  notes.emplace_back("all");
}

TEST(TogetherTest, AllBeginBeforeOneHasEnded) {
  boost::asio::io_context io;
  std::array<OneShotEvent, 2> events;
  std::vector<std::string> notes;
  std::vector<Task<>> tasks;
  tasks.push_back(waitAndNote(events[0], notes, "a"));
  tasks.push_back(waitAndNote(events[1], notes, "b"));
  boost::asio::co_spawn(io, gather(std::move(tasks), notes), [](const std::exception_ptr&) {});
  io.poll();
  EXPECT_THAT(notes, ElementsAre("begin a", "begin b"));
  events[1].set();
  io.poll();
  events[0].set();
  io.run();
  EXPECT_THAT(notes, ElementsAre("begin a", "begin b", "end b", "end a", "all"));
}

TEST(TogetherTest, NoneIsDoneAtOnce) {
  boost::asio::io_context io;
  std::vector<std::string> notes;
  boost::asio::co_spawn(io, gather({}, notes), [](const std::exception_ptr&) {});
  io.run();
  EXPECT_THAT(notes, ElementsAre("all"));
}

TEST(TogetherTest, AnExceptionIsThrownAgainWhenAllHaveEnded) {
  boost::asio::io_context io;
  OneShotEvent event;
  std::vector<std::string> notes;
  std::vector<Task<>> tasks;
  tasks.push_back(fail());
  tasks.push_back(waitAndNote(event, notes, "a"));
  bool thrown = false;
  boost::asio::co_spawn(io, gather(std::move(tasks), notes),
                        [&](const std::exception_ptr& left) { thrown = left != nullptr; });
  io.poll();
  EXPECT_FALSE(thrown);
  event.set();
  io.run();
  EXPECT_TRUE(thrown);
  EXPECT_THAT(notes, ElementsAre("begin a", "end a"));
}

}  // namespace
}  // namespace nimbus
