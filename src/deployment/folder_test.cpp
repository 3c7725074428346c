#include "deployment/folder.h"

#include "base/json.h"
#include "base/testing/temporary_directory.h"
#include "function/upload.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace nimbus::deployment {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FolderTest : public ::testing::Test {
 protected:
  void write(const std::string& path, const std::string& bytes) {
    const fs::path file = folder_ / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }
  // A setting of the body as it stands there; empty if it is not there.
  std::string setting(const std::string& name) {
    const Result<std::string> body = bodyOfFolder(folder_);
    EXPECT_TRUE(body) << body.error().message();
    if (!body) return {};
    const auto members = splitObject(*body);
    EXPECT_TRUE(members) << *body;
    for (const RawMember& member : *members) {
      if (member.name == name) return std::string(member.value);
    }
    return {};
  }
  std::vector<std::string> paths() {
    std::vector<std::string> paths;
    const auto code = function::readCode(*bodyOfFolder(folder_));
    for (const auto& [path, file] : (*code)->files()) paths.push_back(path);
    return paths;
  }
  std::string refusal() {
    const Result<std::string> body = bodyOfFolder(folder_);
    return body ? "it was not refused" : body.error().message();
  }

  TemporaryDirectory directory_;
  fs::path folder_ = directory_.path() / "counter";
};

TEST_F(FolderTest, TheRuntimeFollowsFromTheMainFile) {
  write("main.py", "def handle(event): pass\n");
  EXPECT_EQ(setting("runtime"), R"("python")");
  fs::rename(folder_ / "main.py", folder_ / "main.mjs");
  EXPECT_EQ(setting("runtime"), R"("node")");
  fs::rename(folder_ / "main.mjs", folder_ / "main.cpp");
  EXPECT_EQ(setting("runtime"), R"("native")");
  fs::rename(folder_ / "main.cpp", folder_ / "other.txt");
  EXPECT_THAT(refusal(), HasSubstr("main.py"));
  write("function.yaml", "runtime: exec\nhandler: other.txt\n");
  EXPECT_EQ(setting("runtime"), R"("exec")");
}

TEST_F(FolderTest, FilesOfAnyKindAreItsCode) {
  write("main.py", "import lib\n");
  write("lib/words.py", "");
  write("lib/picture.bin", std::string("\x00\xff\x80", 3));
  EXPECT_THAT(paths(), ElementsAre("lib/picture.bin", "lib/words.py", "main.py"));
}

TEST_F(FolderTest, WhatIsNotCodeIsLeftOut) {
  write("main.js", "exports.handle = () => 1;\n");
  write("README.md", "read me");
  write("tests/test_main.js", "");
  write("node_modules/left-pad/index.js", "");
  write("lib/node_modules/x/index.js", "");
  write(".git/HEAD", "");
  write("lib/__pycache__/a.pyc", "");
  write("function.yaml", "");
  write("lib/README.md", "this one is data");
  EXPECT_THAT(paths(), ElementsAre("lib/README.md", "main.js"));
}

TEST_F(FolderTest, SettingsOfYamlAreThoseOfTheBody) {
  write("main.py", "");
  write("function.yaml",
        "timeout_ms: 1500\nenv:\n  GREETING: hello\n  NUMBER: \"7\"\n"
        "state_config:\n  enabled: true\n  default_ttl: 1.5\n");
  EXPECT_EQ(setting("timeout_ms"), "1500");
  EXPECT_EQ(setting("env"), R"({"GREETING":"hello","NUMBER":"7"})");
  EXPECT_EQ(setting("state_config"), R"({"enabled":true,"default_ttl":1.5})");
  EXPECT_EQ(setting("runtime"), R"("python")");
}

TEST_F(FolderTest, SettingsOfJsonAreThoseOfTheBody) {
  write("main.py", "");
  write("function.json", R"({"timeout_ms": 1500})");
  EXPECT_EQ(setting("timeout_ms"), "1500");
}

TEST_F(FolderTest, WhatIsWrongIsSaid) {
  fs::create_directories(folder_);
  EXPECT_THAT(refusal(), HasSubstr("no code"));
  write("main.py", "");
  write("function.yaml", "timeout_ms: 1\ntimeout_ms: 2\n");
  EXPECT_THAT(refusal(), HasSubstr("function.yaml: line 2: \"timeout_ms\" is there twice"));
  write("function.yaml", "files: {}\n");
  EXPECT_THAT(refusal(), HasSubstr("\"files\" has no place"));
  write("function.yaml", "- a list\n");
  EXPECT_THAT(refusal(), HasSubstr("names and values"));
  write("function.yaml", "a: [\n");
  EXPECT_THAT(refusal(), HasSubstr("function.yaml: line"));
  write("function.json", "{}");
  EXPECT_THAT(refusal(), HasSubstr("one must do"));
  fs::remove(folder_ / "function.yaml");
  write("function.json", "[]");
  EXPECT_THAT(refusal(), HasSubstr("function.json"));
}

}  // namespace
}  // namespace nimbus::deployment
