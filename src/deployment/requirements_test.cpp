#include "deployment/requirements.h"

#include "base/testing/temporary_directory.h"
#include "deployment/dependencies.h"

#include <gmock/gmock.h>

#include <fstream>

namespace nimbus::deployment {
namespace {

using function::Runtime;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class RequirementsTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((directory_.path() / name).parent_path());
    std::ofstream(directory_.path() / name) << text;
  }
  Result<std::optional<Requirements>> of(Runtime runtime) {
    return requirementsOf(runtime, directory_.path());
  }

  TemporaryDirectory directory_;
};

TEST_F(RequirementsTest, CodeWithoutThemNeedsNothing) {
  EXPECT_FALSE(of(Runtime::Python)->has_value());
  EXPECT_FALSE(of(Runtime::Node)->has_value());
  write("requirements.txt", "requests\n");
  EXPECT_FALSE(of(Runtime::Node)->has_value());
  EXPECT_FALSE(of(Runtime::Native)->has_value());
}

TEST_F(RequirementsTest, LinesOfRequirementsNamePackages) {
  write("requirements.txt",
        "# comment\n\nrequests==2.31.0  # why\nflask[async] >= 2, < 3 ; python_version > \"3.8\"\n"
        "numpy==1.26 \\\n    --hash=sha256:00 \\\n    --hash=sha256:01\n");
  const auto needed = of(Runtime::Python);
  ASSERT_TRUE(needed && *needed);
  EXPECT_THAT((*needed)->files, ElementsAre("requirements.txt"));
  EXPECT_FALSE((*needed)->needs_code);
}

TEST_F(RequirementsTest, WhatPipWouldDoOtherwiseIsRefusedWithItsLine) {
  for (const std::string line : {"-r other.txt", "--pre", "./x", "x @ https://y/x.whl", "x --y",
                                 "\\\n-e .", "$HOME", "x\\y"}) {
    write("requirements.txt", "requests\n" + line + "\n");
    const auto needed = of(Runtime::Python);
    ASSERT_FALSE(needed) << line;
    EXPECT_EQ(needed.error().code(), Code::Unprocessable);
    EXPECT_GE(needed.error().field("line", 0), 2);
  }
}

TEST_F(RequirementsTest, PackagesWithinTheCodeMakeAllOfItMatter) {
  write("package.json", R"({"dependencies": {"a": "^1.0.0"}})");
  EXPECT_FALSE((**of(Runtime::Node)).needs_code);
  write("package.json", R"({"dependencies": {"a": "file:./lib/../lib/a"}})");
  EXPECT_TRUE((**of(Runtime::Node)).needs_code);
}

TEST_F(RequirementsTest, ALockFileCounts) {
  write("package.json", R"({"dependencies": {"a": "^1.0.0"}})");
  write(
      "package-lock.json",
      R"({"packages": {"": {}, "node_modules/a": {"version": "1.0.0", "resolved": "https://x/a"}}})");
  const auto needed = of(Runtime::Node);
  ASSERT_TRUE(needed && *needed);
  EXPECT_TRUE((*needed)->is_locked);
  EXPECT_FALSE((*needed)->needs_code);
  EXPECT_THAT((*needed)->files, ElementsAre("package.json", "package-lock.json"));
  write("package-lock.json", R"({"packages": {"../a": {}}})");
  EXPECT_FALSE(of(Runtime::Node));
}

TEST_F(RequirementsTest, WhatIsNoJsonIsTold) {
  write("package.json", "{");
  const auto needed = of(Runtime::Node);
  ASSERT_FALSE(needed);
  EXPECT_THAT(needed.error().message(), HasSubstr("package.json: "));
}

TEST(InstallErrorTest, TheFirstErrorIsTold) {
  EXPECT_EQ(installError("Looking\nERROR: no matching distribution\nERROR: more\n", "r").message(),
            "DependencyError: r: no matching distribution");
  EXPECT_EQ(installError("npm ERR! code E404\nnpm ERR! 404 Not Found\n", "p").message(),
            "DependencyError: p: 404 Not Found");
  EXPECT_EQ(installError("first\nlast\n\n", "p").message(), "DependencyError: p: last");
  EXPECT_THAT(installError("/usr/bin/python3: No module named pip\n", "r").message(),
              HasSubstr("install python3-pip"));
  EXPECT_EQ(installError("", "p").message(), "DependencyError: p: ");
}

}  // namespace
}  // namespace nimbus::deployment
