#include "function/bundle.h"

#include "base/testing/temporary_directory.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <iterator>
#include <set>
#include <thread>
#include <vector>

namespace nimbus::function {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::UnorderedElementsAre;

using Mode = Bundle::Mode;

Bundle bundleOf(const std::vector<std::pair<std::string, std::string>>& files) {
  Bundle bundle;
  for (const auto& [path, bytes] : files) EXPECT_TRUE(bundle.add(path, bytes, Mode::Plain));
  return bundle;
}

std::string content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

unsigned modeOf(const fs::path& path) {
  struct ::stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(BundleTest, PlainRelativePathsAreTaken) {
  for (const std::string path : {"a", "main.py", "a/b/c.txt", "..a", "a..", "...", ".hidden", "a b",
                                 "ü/日本.py", "a:b*?[]{}%"}) {
    EXPECT_TRUE(checkPath(path)) << path;
  }
}

TEST(BundleTest, PathsThatLeadElsewhereOrAreNoneAreRefused) {
  for (const std::string& path : {std::string(""),
                                  std::string("/"),
                                  std::string("/etc/passwd"),
                                  std::string(".."),
                                  std::string("."),
                                  std::string("../a"),
                                  std::string("a/../b"),
                                  std::string("a/.."),
                                  std::string("a/./b"),
                                  std::string("a//b"),
                                  std::string("a/"),
                                  std::string("a\\b"),
                                  std::string("C:\\a"),
                                  std::string("a\nb"),
                                  std::string("a\0b", 3),
                                  std::string("a\x7f"),
                                  std::string("a\xff"),
                                  std::string("a\xc2\x85"),
                                  std::string(256, 'a'),
                                  std::string("x/") + std::string(256, 'a')}) {
    const auto checked = checkPath(path);
    ASSERT_FALSE(checked) << path;
    EXPECT_EQ(checked.error().code(), Code::InvalidArgument);
  }
}

TEST(BundleTest, PathsHaveALengthAndADepth) {
  std::string deep = "a";
  for (int i = 1; i < 64; ++i) deep += "/a";
  EXPECT_TRUE(checkPath(deep));
  EXPECT_FALSE(checkPath(deep + "/a"));
  std::string longest;
  for (int i = 0; i < 4; ++i) longest += std::string(255, 'a') + "/";
  EXPECT_EQ(longest.size(), 1'024U);
  longest.back() = 'a';  // no component may be so long
  EXPECT_FALSE(checkPath(longest));
  longest = std::string(255, 'a') + "/" + std::string(255, 'a') + "/" + std::string(255, 'a') +
            "/" + std::string(254, 'a') + "/b";
  EXPECT_EQ(longest.size(), 1'024U);
  EXPECT_TRUE(checkPath(longest));
  EXPECT_FALSE(checkPath(longest + "b"));
}

TEST(BundleTest, ADotAtTheBeginningIsDropped) {
  const Bundle bundle = bundleOf({{"./main.py", ""}, {"././a/b", ""}});
  EXPECT_THAT(bundle.files(), ElementsAre(Key("a/b"), Key("main.py")));
}

TEST(BundleTest, APathComesOnce) {
  Bundle bundle = bundleOf({{"main.py", "1"}});
  const auto again = bundle.add("./main.py", "2", Mode::Plain);
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message(), HasSubstr("main.py"));
  EXPECT_EQ(bundle.files().at("main.py").bytes, "1");
}

TEST(BundleTest, NothingIsAFileAndAFolder) {
  EXPECT_FALSE(bundleOf({{"a", ""}}).add("a/b", "", Mode::Plain));
  EXPECT_FALSE(bundleOf({{"a", ""}}).add("a/b/c", "", Mode::Plain));
  EXPECT_FALSE(bundleOf({{"a/b/c", ""}}).add("a", "", Mode::Plain));
  EXPECT_FALSE(bundleOf({{"a/b/c", ""}}).add("a/b", "", Mode::Plain));
  EXPECT_TRUE(bundleOf({{"a/b", ""}, {"a.b", ""}}).add("a-b", "", Mode::Plain));
  EXPECT_TRUE(bundleOf({{"a-b", ""}, {"a.c", ""}}).add("a/b", "", Mode::Plain));
}

TEST(BundleTest, FilesAreCounted) {
  Bundle bundle;
  for (std::size_t i = 0; i < Bundle::kMaxFiles; ++i) {
    ASSERT_TRUE(bundle.add(std::to_string(i), "", Mode::Plain));
  }
  const auto more = bundle.add("more", "", Mode::Plain);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::TooLarge);
  EXPECT_EQ(more.error().field("limit", 0), 2'000);
}

TEST(BundleTest, BytesAreCounted) {
  Bundle bundle;
  ASSERT_TRUE(bundle.add("a", std::string(Bundle::kMaxBytes - 1, 'a'), Mode::Plain));
  ASSERT_TRUE(bundle.add("b", "b", Mode::Plain));
  const auto more = bundle.add("c", "c", Mode::Plain);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code(), Code::TooLarge);
  EXPECT_TRUE(bundle.add("empty", "", Mode::Plain));
}

TEST(BundleTest, WhatBeginsLikeAProgramIsExecutable) {
  const Bundle bundle = bundleOf({{"script", "#!/bin/sh\n"},
                                  {"program",
                                   "\x7f"
                                   "ELF…"},
                                  {"text", "x"}});
  EXPECT_EQ(bundle.files().at("script").mode, Mode::Executable);
  EXPECT_EQ(bundle.files().at("program").mode, Mode::Executable);
  EXPECT_EQ(bundle.files().at("text").mode, Mode::Plain);
}

TEST(BundleTest, TheHashTellsAllDifferences) {
  Bundle executable;
  ASSERT_TRUE(executable.add("a", "b", Mode::Executable));
  const std::vector<Bundle> bundles = {
      Bundle(),
      bundleOf({{"a", "b"}}),
      executable,
      bundleOf({{"a", "c"}}),
      bundleOf({{"b", "b"}}),
      bundleOf({{"a", "b"}, {"c", ""}}),
      bundleOf({{"a", "bc"}}),
      bundleOf({{"ab", ""}}),
      bundleOf({{"a", ""}, {"b", ""}}),
      // What another file's head would look like, as content.
      bundleOf({{"a", std::string("b\1\0\0\0\0\0\0\0\0\0\0\0\0c", 15)}}),
  };
  std::set<std::string> hashes;
  for (const Bundle& bundle : bundles) hashes.insert(bundle.hash());
  EXPECT_EQ(hashes.size(), bundles.size());
}

TEST(BundleTest, TheHashDoesNotDependOnTheOrderAndNeverChanges) {
  EXPECT_EQ(bundleOf({{"a", "1"}, {"b", "2"}}).hash(), bundleOf({{"b", "2"}, {"a", "1"}}).hash());
  // Stored names of code; another value would lose it.
  EXPECT_EQ(bundleOf({{"main.py", "def handle(event, context): pass\n"}}).hash(),
            "9f33fed8e8aae9ff2b172e49db2d4b1aa4e4c09cc82fb130bd27feaa7e3a9733");
}

TEST(BundleTest, TheEncodedFormKeepsEverything) {
  Bundle bundle = bundleOf({{"a/b", std::string("\0\xff", 2)}, {"c", ""}});
  ASSERT_TRUE(bundle.add("d", "x", Mode::Executable));
  const auto decoded = Bundle::decode(bundle.encode());
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, bundle);
}

TEST(BundleTest, AnEncodedFormThatIsDamagedIsNotTakenForCode) {
  const std::string encoded = bundleOf({{"a", "1"}, {"b", "22"}}).encode();
  const std::size_t first = encoded.find('1', 20) + 1;  // where the first file ends
  for (std::size_t length = 0; length < encoded.size(); ++length) {
    const auto decoded = Bundle::decode(encoded.substr(0, length));
    const bool whole = decoded.has_value();
    EXPECT_EQ(whole, length == first || length == 14) << length;
  }
  EXPECT_FALSE(Bundle::decode(encoded + "x"));
}

TEST(BundleTest, ADecodedPathIsLookedAtLikeAnyOther) {
  std::string encoded = bundleOf({{"xx/a", "1"}}).encode();
  encoded.replace(encoded.find("xx/a"), 4, "../a");
  EXPECT_FALSE(Bundle::decode(encoded));
}

class WriteBundleTest : public ::testing::Test {
 protected:
  std::vector<std::string> names(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

  TemporaryDirectory directory_;
};

TEST_F(WriteBundleTest, FilesLieWhereTheirPathsSay) {
  Bundle bundle = bundleOf({{"main.py", "code"}, {"a/b/c", std::string("\0\n", 2)}, {"empty", ""}});
  ASSERT_TRUE(bundle.add("run", "x", Mode::Executable));
  const ::mode_t before = ::umask(0077);
  const fs::path target = directory_.path() / "cart" / "3";
  ASSERT_TRUE(bundle.writeTo(target));
  ::umask(before);
  EXPECT_EQ(content(target / "main.py"), "code");
  EXPECT_EQ(content(target / "a/b/c"), std::string("\0\n", 2));
  EXPECT_EQ(content(target / "empty"), "");
  EXPECT_THAT(names(target), UnorderedElementsAre("main.py", "a", "empty", "run"));
  EXPECT_THAT(names(target.parent_path()), ElementsAre("3")) << "nothing is left beside it";
  EXPECT_EQ(modeOf(target), 0755U);
  EXPECT_EQ(modeOf(target / "a/b"), 0755U);
  EXPECT_EQ(modeOf(target / "main.py"), 0644U);
  EXPECT_EQ(modeOf(target / "run"), 0755U);
}

TEST_F(WriteBundleTest, WhatIsThereAlreadyIsLeftAlone) {
  const fs::path target = directory_.path() / "3";
  ASSERT_TRUE(bundleOf({{"main.py", "first"}}).writeTo(target));
  ASSERT_TRUE(bundleOf({{"main.py", "second"}}).writeTo(target));
  EXPECT_EQ(content(target / "main.py"), "first");
}

TEST_F(WriteBundleTest, ManyAtOnceMakeOne) {
  const Bundle bundle = bundleOf({{"a/main.py", std::string(100'000, 'x')}, {"b", "y"}});
  for (int round = 0; round < 20; ++round) {
    const fs::path target = directory_.path() / std::to_string(round);
    std::atomic<int> failed = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([&] {
        if (!bundle.writeTo(target) || content(target / "b") != "y") ++failed;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(failed, 0);
    EXPECT_EQ(content(target / "a/main.py").size(), 100'000U);
  }
  EXPECT_EQ(names(directory_.path()).size(), 20U) << "nothing is left beside them";
}

TEST_F(WriteBundleTest, WhereItCannotBeWrittenNothingIsLeft) {
  const fs::path file = directory_.path() / "file";
  std::ofstream(file) << "x";
  const auto over = bundleOf({{"a", ""}}).writeTo(file);
  ASSERT_FALSE(over);
  EXPECT_THAT(over.error().message(), HasSubstr("file"));
  EXPECT_FALSE(bundleOf({{"a", ""}}).writeTo(file / "below"));
  EXPECT_EQ(content(file), "x");
  EXPECT_THAT(names(directory_.path()), ElementsAre("file"));
}

}  // namespace
}  // namespace nimbus::function
