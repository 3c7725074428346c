#include "gateway/admin_key.h"

#include "base/testing/temporary_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::gateway {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class AdminKeyTest : public ::testing::Test {
 protected:
  static unsigned modeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::stat(path.c_str(), &info), 0);
    return info.st_mode & 07777U;
  }

  SystemRandom random_;
  const TemporaryDirectory temporary_;
  const std::string directory_ = temporary_.path().string();
  const std::string path_ = directory_ + "/admin.key";
};

TEST_F(AdminKeyTest, TheFirstStartMakesAKeyOnlyItsOwnerCanRead) {
  const ::mode_t before = ::umask(0);
  const auto made = openAdminKey(directory_, random_);
  ::umask(before);
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->is_new);
  EXPECT_THAT(made->key, MatchesRegex("nk_[0-9a-z]{50}"));
  EXPECT_EQ(made->path, path_);
  EXPECT_EQ(modeOf(path_), 0600U);

  std::string line;
  std::getline(std::ifstream(path_) >> std::ws, line);
  EXPECT_EQ(line, made->key);
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(AdminKeyTest, LaterStartsFindTheSameKey) {
  const auto made = openAdminKey(directory_, random_);
  const auto found = openAdminKey(directory_, random_);
  ASSERT_TRUE(made && found);
  EXPECT_EQ(found->key, made->key);
  EXPECT_FALSE(found->is_new);
}

TEST_F(AdminKeyTest, ProcessesThatStartAtOnceAgreeOnOneKey) {
  for (int round = 0; round < 20; ++round) {
    fs::remove(path_);
    std::vector<Result<AdminKey>> results(8);
    std::vector<std::thread> threads;
    for (auto& result : results) {
      threads.emplace_back([&] { result = openAdminKey(directory_, random_); });
    }
    for (std::thread& thread : threads) thread.join();

    std::set<std::string> keys;
    int made = 0;
    for (const auto& result : results) {
      ASSERT_TRUE(result);
      keys.insert(result->key);
      made += result->is_new ? 1 : 0;
    }
    EXPECT_EQ(keys.size(), 1U);
    EXPECT_EQ(made, 1);
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(directory_), fs::directory_iterator()), 1);
}

TEST_F(AdminKeyTest, AFileThatHoldsNoKeyIsRefusedAndLeftAlone) {
  for (const std::string& content :
       {std::string(), std::string("secret\n"), "nk_" + std::string(49, 'a'),
        "nk_" + std::string(51, 'a'), "nk_" + std::string(50, 'A'),
        "nk_" + std::string(50, 'a') + "\n\n", std::string(100'000, 'x')}) {
    std::ofstream(path_, std::ios::trunc) << content;
    const auto opened = openAdminKey(directory_, random_);
    ASSERT_FALSE(opened) << content.substr(0, 60);
    EXPECT_THAT(opened.error().message(), HasSubstr("holds no key"));
    EXPECT_EQ(fs::file_size(path_), content.size());
  }
}

TEST_F(AdminKeyTest, AKeyOthersCouldReadIsMadePrivate) {
  const auto made = openAdminKey(directory_, random_);
  ASSERT_TRUE(made);
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  const auto found = openAdminKey(directory_, random_);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->key, made->key);
  EXPECT_EQ(modeOf(path_), 0600U);
}

TEST_F(AdminKeyTest, ALinkToElsewhereIsRefused) {
  fs::create_symlink("/etc/passwd", path_);
  EXPECT_FALSE(openAdminKey(directory_, random_));
}

TEST_F(AdminKeyTest, ADirectoryThatCannotBeWrittenIsNamed) {
  const auto opened = openAdminKey(directory_ + "/missing", random_);
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr(directory_ + "/missing/admin.key"));
  EXPECT_THAT(opened.error().message(), HasSubstr("No such file"));
}

}  // namespace
}  // namespace nimbus::gateway
