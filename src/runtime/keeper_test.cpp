#include "runtime/keeper.h"

#include "runtime/launcher.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

namespace nimbus::runtime {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;

constexpr std::chrono::milliseconds kLong{20'000};

class KeeperTest : public ::testing::Test {
 protected:
  KeeperTest() : keeper_(*Keeper::start()) { keeper_->listen(context_.get_executor()); }

  template <typename T>
  T finish(Task<T> task) {
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) {
      context_.run_one();
    }
    return result.get();
  }

  // Its standard output is read to the end.
  std::string outputOf(std::vector<std::string> arguments) {
    Connection connection = *connect();
    Command command;
    command.arguments = std::move(arguments);
    command.environment = {"PATH=/usr/bin:/bin", "SAYS=hello"};
    command.directory = "/";
    const auto process = finish(keeper_->spawn(std::move(command), std::move(connection.theirs)));
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

  static bool isThere(pid_t process) { return ::kill(process, 0) == 0; }

  static bool goes(pid_t process) {
    const auto until = std::chrono::steady_clock::now() + kLong;
    while (isThere(process) && std::chrono::steady_clock::now() < until) std::this_thread::yield();
    return !isThere(process);
  }

  asio::io_context context_;
  std::unique_ptr<Keeper> keeper_;
  pid_t process_ = 0;
};

TEST_F(KeeperTest, StartsAProgramWithWhatItIsGivenAndNothingElse) {
  const std::string output = outputOf(
      {"/bin/sh", "-c", "echo $SAYS $HOME; pwd; ls /proc/self/fd | tr '\\n' ' '; ps -o sid= $$"});
  EXPECT_THAT(output, HasSubstr("hello\n/\n"));
  EXPECT_THAT(output, HasSubstr("0 1 2 3 "));
  EXPECT_THAT(output, HasSubstr(std::to_string(process_))) << "it leads a session of its own";
}

TEST_F(KeeperTest, TellsHowAProcessEnded) {
  outputOf({"/bin/sh", "-c", "exit 3"});
  const auto exited = finish(keeper_->exitOf(process_, kLong));
  ASSERT_TRUE(exited);
  EXPECT_EQ(exited->text(), "it exited with 3");
  outputOf({"/bin/sh", "-c", "kill -SEGV $$"});
  EXPECT_EQ(finish(keeper_->exitOf(process_, kLong))->text(), "it was killed by signal 11");
}

TEST_F(KeeperTest, SaysWhyAProgramCannotBeStarted) {
  Connection connection = *connect();
  Command command;
  command.arguments = {"/no/such/program"};
  command.directory = "/";
  const auto process = finish(keeper_->spawn(std::move(command), std::move(connection.theirs)));
  ASSERT_FALSE(process);
  EXPECT_THAT(process.error().message(), HasSubstr("No such file"));
}

TEST_F(KeeperTest, KillsAProcessWithItsGroup) {
  Connection connection = *connect();
  Command command;
  command.arguments = {"/bin/sh", "-c", "sleep 1000 & echo $! ; wait"};
  command.environment = {"PATH=/usr/bin:/bin"};
  command.directory = "/";
  const auto process = finish(keeper_->spawn(std::move(command), std::move(connection.theirs)));
  std::string child;
  std::array<char, 64> room{};
  while (child.find('\n') == std::string::npos) {
    const ssize_t bytes = ::read(connection.ours.out.get(), room.data(), room.size());
    if (bytes > 0) child.append(room.data(), static_cast<std::size_t>(bytes));
  }
  keeper_->kill(*process);
  EXPECT_EQ(finish(keeper_->exitOf(*process, kLong))->text(), "it was killed by signal 9");
  EXPECT_TRUE(goes(std::stoi(child)));
}

TEST_F(KeeperTest, DoesNotKillStrangers) {
  const pid_t stranger = ::fork();
  if (stranger == 0) {
    ::pause();
    ::_exit(0);
  }
  keeper_->kill(stranger);
  outputOf({"/bin/true"});  // the keeper has seen the order
  EXPECT_TRUE(isThere(stranger));
  ::kill(stranger, SIGKILL);
  ::waitpid(stranger, nullptr, 0);
}

TEST_F(KeeperTest, AnEndThatDoesNotComeIsNotWaitedForForever) {
  Connection connection = *connect();
  Command command;
  command.arguments = {"/bin/sleep", "1000"};
  command.directory = "/";
  const auto process = finish(keeper_->spawn(std::move(command), std::move(connection.theirs)));
  const auto exited = finish(keeper_->exitOf(*process, std::chrono::milliseconds(1)));
  ASSERT_FALSE(exited);
  EXPECT_EQ(exited.error().code(), Code::Unavailable);
}

// The server is killed: whatever was started goes, also what hides behind a session of its own.
TEST(KeeperDeathTest, NothingOutlivesTheServer) {
  const std::string file =
      std::filesystem::temp_directory_path() / ("keeper" + std::to_string(::getpid()));
  const pid_t server = ::fork();
  if (server == 0) {
    asio::io_context context;
    const auto keeper = *Keeper::start();
    keeper->listen(context.get_executor());
    Connection connection = *connect();
    Command command;
    command.arguments = {
        "/bin/sh", "-c",
        "setsid sh -c 'echo $$ >> " + file + "; exec sleep 1000' & echo $$ >> " + file + "; wait"};
    command.environment = {"PATH=/usr/bin:/bin"};
    command.directory = "/";
    asio::co_spawn(context, keeper->spawn(std::move(command), std::move(connection.theirs)),
                   asio::use_future);
    context.run();
  }
  std::vector<pid_t> processes;
  const auto until = std::chrono::steady_clock::now() + kLong;
  while (processes.size() < 2 && std::chrono::steady_clock::now() < until) {
    processes.clear();
    std::ifstream lines(file);
    for (pid_t one = 0; lines >> one;) processes.push_back(one);
  }
  ASSERT_EQ(processes.size(), 2U);
  ::kill(server, SIGKILL);
  ::waitpid(server, nullptr, 0);
  for (const pid_t one : processes) {
    while (::kill(one, 0) == 0 && std::chrono::steady_clock::now() < until) {
      std::this_thread::yield();
    }
    EXPECT_NE(::kill(one, 0), 0);
  }
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace nimbus::runtime
