#include "deployment/native_build.h"

#include "base/testing/temporary_directory.h"

#include <gmock/gmock.h>

#include <fstream>

namespace nimbus::deployment {
namespace {

using ::testing::HasSubstr;

std::string field(const Error& error, std::string_view name) {
  for (const Error::Field& one : error.fields()) {
    if (one.name == name) return std::get<std::string>(one.value);
  }
  return {};
}

TEST(CompileErrorTest, TheFirstErrorIsTold) {
  const Error error = compileError(
      "In file included from /x/nimbus_entry.cpp:1:\n"
      "./main.cpp:3:9: warning: unused\n"
      "./main.cpp:7:3: error: 'evnt' was not declared\n"
      "./main.cpp:9:3: error: and more\n",
      "main.cpp");
  EXPECT_EQ(error.code(), Code::Unprocessable);
  EXPECT_EQ(error.message(), "CompileError: main.cpp:7: 'evnt' was not declared");
  EXPECT_EQ(field(error, "file"), "main.cpp");
  EXPECT_EQ(error.field("line", 0), 7);
  EXPECT_THAT(field(error, "trace"), HasSubstr("and more"));
}

TEST(CompileErrorTest, AFatalErrorIsAnError) {
  const Error error = compileError("lib/a.cc:1:10: fatal error: x.h: No such file\n", "main.cpp");
  EXPECT_EQ(error.message(), "CompileError: lib/a.cc:1: x.h: No such file");
}

TEST(CompileErrorTest, WhatIsWrongElsewhereIsTheHandlersFault) {
  const Error error = compileError(
      "/usr/share/nimbus/sdk/function.h:9:1: error: static assertion failed\n", "a.cpp");
  EXPECT_EQ(error.message(), "CompileError: a.cpp: static assertion failed");
  EXPECT_EQ(error.field("line", -1), -1);
}

TEST(CompileErrorTest, TheLinkerHasNoLines) {
  const Error error = compileError(
      "/usr/bin/ld: /tmp/x.o: in function `handle':\n"
      "entry.cpp:(.text+0x1): undefined reference to `first()'\n"
      "entry.cpp:(.text+0x2): undefined reference to `second()'\n"
      "collect2: error: ld returned 1 exit status\n",
      "main.cpp");
  EXPECT_EQ(error.message(), "CompileError: main.cpp: undefined reference to `first()'");
}

TEST(CompileErrorTest, AnythingIsBetterThanNothing) {
  EXPECT_EQ(compileError("c++: no space left\n", "main.cpp").message(),
            "CompileError: main.cpp: c++: no space left");
  EXPECT_EQ(compileError("", "main.cpp").message(), "CompileError: main.cpp: ");
}

class NativeCodeTest : public ::testing::Test {
 protected:
  void write(const std::string& path, std::filesystem::perms mode) {
    const auto file = code_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << "x";
    std::filesystem::permissions(file, mode);
  }
  Result<NativeCode> find(const std::string& handler) {
    function::Definition definition(*FunctionId::parse("f"));
    definition.handler = handler;
    return nativeCodeOf(definition, code_);
  }

  static constexpr auto kPlain = std::filesystem::perms::owner_read;
  static constexpr auto kExecutable =
      std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec;

  TemporaryDirectory directory_;
  const std::filesystem::path code_ = std::filesystem::path(directory_.path()) / "abc";
};

TEST_F(NativeCodeTest, AProgramAmongTheFilesIsTaken) {
  write("bin/tool.v2", kExecutable);
  write("bin/tool.cpp", kPlain);
  const auto code = find("bin/tool.v2");
  ASSERT_TRUE(code);
  EXPECT_FALSE(code->isSource());
  EXPECT_EQ(code->program, code_ / "bin/tool.v2");
}

TEST_F(NativeCodeTest, SourceIsFoundByItsNameAndBuiltBesideTheCode) {
  write("lib/app.cc", kPlain);
  const auto code = find("lib/app.shop::handle");
  ASSERT_TRUE(code);
  EXPECT_EQ(code->source, "lib/app.cc");
  EXPECT_EQ(code->symbol, "shop::handle");
  EXPECT_EQ(code->program.parent_path(), code_.parent_path() / "abc.native");
  EXPECT_EQ(code->program.filename(), "lib%2Fapp.shop::handle");
}

TEST_F(NativeCodeTest, WhatIsNeitherIsRefused) {
  write("main.cpp", kPlain);
  write("notes.txt", kPlain);
  for (const char* const handler :
       {"main", "other.handle", "main.", "main.a b", "notes.txt", "main.x);int y(", ".handle"}) {
    const auto code = find(handler);
    ASSERT_FALSE(code) << handler;
    EXPECT_EQ(code.error().code(), Code::Unprocessable);
  }
}

}  // namespace
}  // namespace nimbus::deployment
