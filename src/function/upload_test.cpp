#include "function/upload.h"

#include <gmock/gmock.h>
#include <sodium.h>

#include <string>

namespace nimbus::function {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Key;

std::string refusal(std::string_view body) {
  const auto code = readCode(body);
  EXPECT_FALSE(code) << body;
  return code ? "(accepted)" : code.error().message();
}

// One file, "a", of 2 bytes, in the oldest form of tar.
std::string tar() {
  std::string head(512, '\0');
  head.replace(0, 1, "a");
  head.replace(100, 7, "0000644");
  head.replace(124, 11, "00000000002");
  head.replace(148, 8, "        ");
  head[156] = '0';
  unsigned sum = 0;
  for (const char c : head) sum += static_cast<unsigned char>(c);
  std::snprintf(head.data() + 148, 8, "%06o", sum);
  return head + "hi" + std::string(510 + 1'024, '\0');
}

std::string base64(std::string_view bytes) {
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), sodium_base64_VARIANT_ORIGINAL), '\0');
  // NOLINTNEXTLINE(*-reinterpret-cast): bytes are bytes
  const auto* in = reinterpret_cast<const unsigned char*>(bytes.data());
  ::sodium_bin2base64(text.data(), text.size(), in, bytes.size(), sodium_base64_VARIANT_ORIGINAL);
  text.pop_back();
  return text;
}

TEST(UploadTest, ABodyMayHaveNoCode) {
  const auto code = readCode(R"({"runtime":"python"})");
  ASSERT_TRUE(code);
  EXPECT_FALSE(code->has_value());
}

TEST(UploadTest, FilesAreTextsByPath) {
  const auto code = readCode(R"({"files":{"main.py":"print(\"é\")\n","a/run":"#!/bin/sh"}})");
  ASSERT_TRUE(code);
  EXPECT_THAT((*code)->files(), ElementsAre(Key("a/run"), Key("main.py")));
  EXPECT_EQ((*code)->files().at("main.py").bytes, "print(\"é\")\n");
  EXPECT_EQ((*code)->files().at("a/run").mode, Bundle::Mode::Executable);
}

TEST(UploadTest, AnArchiveIsUnpacked) {
  const auto code = readCode(R"({"archive_base64":")" + base64(tar()) + "\"}");
  ASSERT_TRUE(code) << code.error().message();
  EXPECT_EQ((*code)->files().at("a").bytes, "hi");
}

TEST(UploadTest, FilesMustBeTextsWithGoodPaths) {
  EXPECT_THAT(refusal(R"({"files":[]})"), HasSubstr("files must be an object"));
  EXPECT_THAT(refusal(R"({"files":{"a":1}})"), HasSubstr("a is none"));
  EXPECT_THAT(refusal(R"({"files":{"a":null}})"), HasSubstr("a is none"));
  EXPECT_THAT(refusal(R"({"files":{"../a":""}})"), HasSubstr("../a"));
  EXPECT_THAT(refusal(R"({"files":{"a\u0000b":""}})"), HasSubstr("control character"));
  EXPECT_THAT(refusal(R"({"files":{"a":"1","a":"2"}})"), HasSubstr("twice"));
  EXPECT_THAT(refusal(R"({"files":{}})"), HasSubstr("files has no file"));
}

TEST(UploadTest, Base64IsReadStrictly) {
  const std::string good = base64(tar());
  for (const std::string& bad :
       {good + "=", good + "A", good.substr(0, good.size() - 1), good + "\\n", " " + good,
        std::string("-_-_"), std::string("QQ"), std::string("QR=="), std::string("====")}) {
    EXPECT_THAT(refusal(R"({"archive_base64":")" + bad + "\"}"),
                AllOf(HasSubstr("archive_base64"), HasSubstr("base64")));
  }
  EXPECT_THAT(refusal(R"({"archive_base64":1})"), HasSubstr("must be text"));
}

TEST(UploadTest, WhatIsWrongWithAnArchiveIsSaidOfItsField) {
  EXPECT_THAT(refusal(R"({"archive_base64":""})"), HasSubstr("archive_base64"));
  EXPECT_THAT(refusal(R"({"archive_base64":"aGVsbG8="})"),
              AllOf(HasSubstr("archive_base64"), HasSubstr("no tar, tar.gz or zip")));
}

TEST(UploadTest, WhatIsNoJsonIsSaidToBeNone) {
  const auto code = readCode("{");
  ASSERT_FALSE(code);
  EXPECT_EQ(code.error().code(), Code::InvalidJson);
}

}  // namespace
}  // namespace nimbus::function
