#include "session/function_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::session {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FunctionLogTest : public ::testing::Test {
 protected:
  void print(const std::string& text) { log_->add(Timestamp(), "stdout", text, "r1"); }
  static std::vector<std::string> textOf(const std::vector<LogLine>& lines) {
    std::vector<std::string> text;
    for (const LogLine& line : lines) text.push_back(std::to_string(line.number) + " " + line.line);
    return text;
  }

  const std::shared_ptr<FunctionLog> log_ = std::make_shared<FunctionLog>();
};

TEST_F(FunctionLogTest, LinesAreNumberedAndFoundFromBothEnds) {
  print("one\ntwo\n");
  print("three");
  EXPECT_THAT(textOf(log_->newest(2)), ElementsAre("3 three", "2 two"));
  EXPECT_THAT(textOf(log_->newest(2, 2)), ElementsAre("1 one"));
  EXPECT_THAT(textOf(log_->after(0, 2)), ElementsAre("1 one", "2 two"));
  EXPECT_THAT(textOf(log_->after(2, 9)), ElementsAre("3 three"));
  EXPECT_THAT(textOf(log_->after(3, 9)), IsEmpty());
  EXPECT_THAT(textOf(log_->after(1000, 9)), IsEmpty());
  EXPECT_EQ(log_->lastNumber(), 3u);
}

TEST_F(FunctionLogTest, OldLinesGoAndNumbersGoOn) {
  for (int i = 1; i <= 2500; ++i) print(std::to_string(i));
  const std::vector<LogLine> rest = log_->after(0, 10'000);
  ASSERT_EQ(rest.size(), 2000u);
  EXPECT_EQ(rest.front().number, 501u);
  EXPECT_EQ(rest.front().line, "501");
  EXPECT_THAT(textOf(log_->after(2499, 9)), ElementsAre("2500 2500"));
}

TEST_F(FunctionLogTest, AFollowerIsWokenOnceForEachTimeItWaits) {
  int woken = 0;
  FunctionLog::Follower follower(log_, [&] { ++woken; });
  print("nobody waits");
  EXPECT_EQ(woken, 0);
  EXPECT_FALSE(follower.wait(0));  // there is a line already
  EXPECT_TRUE(follower.wait(1));
  print("a\nb");
  print("c");
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(follower.wait(4));
  print("d");
  EXPECT_EQ(woken, 2);
}

TEST_F(FunctionLogTest, AFollowerThatIsGoneIsNotWoken) {
  int woken = 0;
  {
    FunctionLog::Follower follower(log_, [&] { ++woken; });
    EXPECT_TRUE(follower.wait(0));
  }
  print("a");
  EXPECT_EQ(woken, 0);
}

TEST_F(FunctionLogTest, AClosedLogWakesFollowersAndTakesNothingMore) {
  int woken = 0;
  FunctionLog::Follower follower(log_, [&] { ++woken; });
  EXPECT_TRUE(follower.wait(0));
  log_->close();
  EXPECT_EQ(woken, 1);
  EXPECT_TRUE(log_->isClosed());
  EXPECT_FALSE(follower.wait(0));
  print("late");
  EXPECT_EQ(log_->lastNumber(), 0u);
}

TEST_F(FunctionLogTest, NoLineIsMissedBetweenAThreadThatWritesAndOneThatFollows) {
  constexpr std::uint64_t kLines = 1500;  // as many as are kept
  std::atomic<int> rings = 0;
  FunctionLog::Follower follower(log_, [&] {
    ++rings;
    rings.notify_one();
  });
  std::thread writer([&] {
    for (std::uint64_t i = 0; i < kLines; ++i) print(std::to_string(i));
  });
  std::uint64_t after = 0;
  while (after < kLines) {
    const std::vector<LogLine> lines = log_->after(after, 10);
    for (const LogLine& line : lines) EXPECT_EQ(line.number, ++after);
    const int before = rings.load();
    if (lines.empty() && follower.wait(after)) rings.wait(before);
  }
  writer.join();
}

}  // namespace
}  // namespace nimbus::session
