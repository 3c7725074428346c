#include "cli/watcher.h"

#include "base/testing/temporary_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace nimbus::cli {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class WatcherTest : public ::testing::Test {
 protected:
  void write(const fs::path& name) { std::ofstream(root_ / name) << "text"; }
  std::set<fs::path> changes(Watcher& watcher) { return watcher.changes(Millis(5), Millis(1000)); }

  const TemporaryDirectory temporary_;
  const fs::path root_ = temporary_.path();
};

TEST_F(WatcherTest, TellsOfFilesThatAreWrittenMovedAndRemoved) {
  Watcher watcher = *Watcher::open(root_);
  EXPECT_THAT(changes(watcher), IsEmpty());
  write("main.py");
  EXPECT_THAT(changes(watcher), ElementsAre(root_ / "main.py"));
  fs::rename(root_ / "main.py", root_ / "other.py");
  EXPECT_THAT(changes(watcher), ElementsAre(root_ / "main.py", root_ / "other.py"));
  fs::remove(root_ / "other.py");
  EXPECT_THAT(changes(watcher), ElementsAre(root_ / "other.py"));
  EXPECT_THAT(changes(watcher), IsEmpty());
}

TEST_F(WatcherTest, FollowsDirectoriesThatAppear) {
  Watcher watcher = *Watcher::open(root_);
  fs::create_directories(root_ / "library");
  EXPECT_THAT(changes(watcher), ElementsAre(root_ / "library"));
  write("library/prices.json");
  EXPECT_THAT(changes(watcher), Contains(root_ / "library/prices.json"));
}

TEST_F(WatcherTest, LeavesOutWhatIsNoCode) {
  for (const char* name : {".git", "node_modules", "__pycache__", ".nimbus"}) {
    fs::create_directory(root_ / name);
  }
  Watcher watcher = *Watcher::open(root_);
  for (const char* name : {".git/index", "node_modules/a.js", "__pycache__/a.pyc",
                           ".nimbus/nimbus.db", ".main.py.swp", "main.py~", "4913"}) {
    write(name);
  }
  EXPECT_THAT(changes(watcher), IsEmpty());
}

TEST_F(WatcherTest, ADirectoryThatIsNotThereIsAnError) {
  EXPECT_FALSE(Watcher::open(root_ / "none"));
}

}  // namespace
}  // namespace nimbus::cli
