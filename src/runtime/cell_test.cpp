#include "runtime/cell.h"

#include "runtime/launcher.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

namespace nimbus::runtime {
namespace {

namespace asio = boost::asio;
namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::milliseconds kLong{20'000};

class CellTest : public ::testing::Test {
 protected:
  CellTest()
      : keeper_(*Keeper::start()),
        folder_(fs::temp_directory_path() / ("cells" + std::to_string(::getpid()))) {
    fs::create_directories(folder_ / "code/cart");
    fs::create_directories(folder_ / "code/other");
    fs::permissions(folder_ / "code/cart", fs::perms(0755));
    std::ofstream(folder_ / "code/cart/main.txt") << "carts";
    std::ofstream(folder_ / "secret.txt") << "secret";
    cells_ = std::make_unique<Cells>(*keeper_, CellContents{(folder_ / "code").string(), {}},
                                     std::size_t{1});
    keeper_->listen(context_.get_executor());
  }
  // What waits for the keeper hears of its end.
  ~CellTest() override {
    cell_.end();
    keeper_.reset();
    context_.restart();
    context_.run();
    fs::remove_all(folder_);
  }

  void SetUp() override {
    auto cell = finish(cells_->take(Network::None));
    if (!cell) GTEST_SKIP() << "this machine permits no cells: " << cell.error().message();
    cell_ = *std::move(cell);
  }

  template <typename T>
  T finish(Task<T> task) {
    context_.restart();
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      context_.run_one();
    }
    return result.get();
  }

  // A shell in the cell, and what it prints.
  std::string outputOf(const std::string& script) {
    Connection connection = *connect();
    Command command;
    command.arguments = {"/bin/sh", "-c", "exec 2>&1; " + script};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.directory = "/";
    const auto process = finish(
        keeper_->spawn(std::move(command), std::move(connection.theirs), cell_.namespaces()));
    EXPECT_TRUE(process) << process.error().message();
    process_ = *process;
    std::string output;
    std::array<char, 256> room{};
    while (true) {
      const ssize_t bytes = ::read(connection.ours.out.get(), room.data(), room.size());
      if (bytes == 0) return output;
      if (bytes > 0) output.append(room.data(), static_cast<std::size_t>(bytes));
      if (bytes < 0) std::this_thread::yield();
    }
  }

  asio::io_context context_;
  std::unique_ptr<Keeper> keeper_;
  const fs::path folder_;
  std::unique_ptr<Cells> cells_;
  Cell cell_;
  pid_t process_ = 0;
};

TEST_F(CellTest, NothingOfTheHostIsSeenInIt) {
  const std::string output = outputOf("ls /; ls /code; cat " + (folder_ / "secret.txt").string());
  EXPECT_THAT(output, HasSubstr("usr"));
  EXPECT_THAT(output, Not(HasSubstr("var")));
  EXPECT_THAT(output, Not(HasSubstr("carts")));
  EXPECT_THAT(output, HasSubstr("No such file"));
}

TEST_F(CellTest, CodeIsSeenOnceItIsMountedAndCannotBeChanged) {
  std::vector<CodeMount> mounts = {{"cart", "/code"}};
  ASSERT_TRUE(finish(cell_.mount(std::move(mounts))));
  const std::string output = outputOf("cat /code/main.txt; echo x > /code/main.txt; ls /code/..");
  EXPECT_THAT(output, HasSubstr("carts"));
  EXPECT_THAT(output, HasSubstr("Read-only"));
  EXPECT_THAT(output, Not(HasSubstr("other")));
}

TEST_F(CellTest, CodeThatIsNotThereIsAnErrorAndTheCellLivesOn) {
  std::vector<CodeMount> missing = {{"no such", "/code"}};
  EXPECT_FALSE(finish(cell_.mount(std::move(missing))));
  std::vector<CodeMount> mounts = {{"cart", "/code"}};
  EXPECT_TRUE(finish(cell_.mount(std::move(mounts))));
}

// Two pipes become readable at once. When the first is seen the other is closed, and what asks the
// cell has its place in the reactor when its event comes up.
Task<Result<>> mountAfterClosing(asio::posix::stream_descriptor& seen,
                                 asio::posix::stream_descriptor& closed, Cell& cell) {
  co_await seen.async_wait(asio::posix::stream_descriptor::wait_read, asio::use_awaitable);
  closed.close();
  std::vector<CodeMount> mounts = {{"cart", "/code"}};
  co_return co_await cell.mount(std::move(mounts));
}

TEST_F(CellTest, AnEventOfAnotherDescriptorIsNotItsAnswer) {
  std::array<std::array<int, 2>, 2> pipes{};
  for (auto& one : pipes) ASSERT_EQ(::pipe(one.data()), 0);
  asio::posix::stream_descriptor seen(context_, pipes[0][0]);
  asio::posix::stream_descriptor closed(context_, pipes[1][0]);
  closed.async_wait(asio::posix::stream_descriptor::wait_read, [](boost::system::error_code) {});
  context_.restart();
  auto mounted = asio::co_spawn(context_, mountAfterClosing(seen, closed, cell_), asio::use_future);
  context_.poll();
  for (const auto& one : pipes) ASSERT_EQ(::write(one[1], "!", 1), 1);
  while (mounted.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
    context_.run_one();
  }
  const Result<> done = mounted.get();
  EXPECT_TRUE(done) << done.error().message();
  for (const auto& one : pipes) ::close(one[1]);
}

TEST_F(CellTest, AProcessInItHasNoRights) {
  const std::string output = outputOf(
      "grep -E 'Cap|NoNewPrivs|Seccomp:' /proc/self/status; id -u; ls /proc/self/fd; ls -d "
      "/proc/1");
  EXPECT_THAT(output, HasSubstr("CapEff:\t0000000000000000"));
  EXPECT_THAT(output, HasSubstr("CapBnd:\t0000000000000000"));
  EXPECT_THAT(output, HasSubstr("NoNewPrivs:\t1"));
  EXPECT_THAT(output, HasSubstr("Seccomp:\t2"));
  EXPECT_THAT(output, HasSubstr("\n1000\n"));
  EXPECT_THAT(output, HasSubstr("cannot access '/proc/1'"));
}

TEST_F(CellTest, HowItsProcessEndedIsTold) {
  outputOf("exit 3");
  EXPECT_EQ(finish(keeper_->exitOf(process_, kLong))->text(), "it exited with 3");
  outputOf("kill -9 $$");
  EXPECT_EQ(finish(keeper_->exitOf(process_, kLong))->text(), "it was killed by signal 9");
}

TEST_F(CellTest, AllThatIsInItEndsWithIt) {
  outputOf("setsid sleep 1000 > /dev/null 2>&1 & exec sleep 1000 >/dev/null 2>&1");
  cell_.end();
  EXPECT_EQ(finish(keeper_->exitOf(process_, kLong))->text(), "it was killed by signal 9");
}

TEST_F(CellTest, ThoseThatTakeMoreMemoryThanTheyMayEndItAndItSaysWhy) {
  outputOf("exec sleep 1000 > /dev/null 2>&1");
  cell_.checkMemory(1UL << 40U);
  EXPECT_EQ(cell_.lastWords(), "");
  cell_.checkMemory(1);
  EXPECT_EQ(finish(keeper_->exitOf(process_, kLong))->text(), "it was killed by signal 9");
  EXPECT_THAT(cell_.lastWords(), HasSubstr("more memory"));
}

TEST_F(CellTest, OneIsMadeAheadForTheNext) {
  Cell another = *finish(cells_->take(Network::None));
  EXPECT_FALSE(another.namespaces().empty());
}

}  // namespace
}  // namespace nimbus::runtime
