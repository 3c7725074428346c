// What happens before a server serves.

#include "base/ids.h"
#include "base/testing/temporary_directory.h"
#include "server/data_directory.h"
#include "server/exit_deadline.h"
#include "server/instance_id.h"
#include "server/run_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace nimbus::server {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(InstanceIdTest, HasHostProcessTimeAndRandomness) {
  SeededRandom random(1);
  const Timestamp time{Millis(36 * 36)};
  EXPECT_THAT(makeInstanceId("host1", 12345, time, random),
              MatchesRegex("gw-host1-12345-100-[0-9a-z]{8}"));
  EXPECT_NE(makeInstanceId("host1", 12345, time, random),
            makeInstanceId("host1", 12345, time, random));
}

TEST(InstanceIdTest, IsAnIdWhateverTheHostIsCalled) {
  SeededRandom random(1);
  for (const std::string& host :
       {std::string(), std::string("my host/ü"), std::string(500, 'h'), std::string("a.b_c")}) {
    const std::string id = makeInstanceId(host, 1, Timestamp(Millis(1'700'000'000'000)), random);
    EXPECT_TRUE(checkName("id", id)) << id;
  }
}

class DataDirectoryTest : public ::testing::Test {
 protected:
  static unsigned modeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777U;
  }

  const TemporaryDirectory temporary_;
  const std::string root_ = temporary_.path().string();
};

TEST_F(DataDirectoryTest, IsMadePrivateWithItsParents) {
  ASSERT_TRUE(openDataDirectory(root_ + "/a/b/data"));
  EXPECT_EQ(modeOf(root_ + "/a/b/data"), 0700U);
  EXPECT_TRUE(openDataDirectory(root_ + "/a/b/data"));
  EXPECT_TRUE(openDataDirectory(root_ + "/slash/"));
}

TEST_F(DataDirectoryTest, KeepsItsModeIfItIsThere) {
  ASSERT_EQ(::chmod(root_.c_str(), 0755), 0);
  ASSERT_TRUE(openDataDirectory(root_));
  EXPECT_EQ(modeOf(root_), 0755U);
}

TEST_F(DataDirectoryTest, WhatIsNoDirectoryIsNamed) {
  std::ofstream(root_ + "/file") << "x";
  for (const std::string& path : {root_ + "/file", root_ + "/file/below"}) {
    const auto opened = openDataDirectory(path);
    ASSERT_FALSE(opened);
    EXPECT_THAT(opened.error().message(), HasSubstr(path));
    EXPECT_THAT(opened.error().message(), HasSubstr("--data"));
  }
}

TEST(CheckRunTest, WithoutKeysOnlyThisMachineIsServed) {
  Config config;
  RunOptions open;
  open.authenticate = false;
  EXPECT_TRUE(checkRun(config, open));
  for (const char* listen : {"0.0.0.0:0", "[::]:8787", "192.168.1.1:80"}) {
    config.server.listen = listen;
    const auto allowed = checkRun(config, open);
    ASSERT_FALSE(allowed) << listen;
    EXPECT_THAT(allowed.error().message(), HasSubstr("--no-auth"));
    EXPECT_TRUE(checkRun(config, {})) << listen;
  }
}

TEST(ExitDeadlineDeathTest, EndsAProcessThatDoesNot) {
  EXPECT_EXIT(
      {
        const ExitDeadline deadline(Millis(10));
        ::pause();
      },
      ::testing::ExitedWithCode(0), "left behind");
}

TEST(ExitDeadlineTest, LetsAProcessGoThatIsInTime) {
  const ExitDeadline deadline(Millis(600'000));
}

}  // namespace
}  // namespace nimbus::server
