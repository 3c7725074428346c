#include "base/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nimbus {
namespace {

using ::testing::HasSubstr;

TEST(YamlTest, KeepsOrderTextAndLines) {
  const auto root = parseYaml("a: 1\nb:\n  - x\n  - \"8\"\nc:\n");
  ASSERT_TRUE(root);
  ASSERT_EQ(root->kind, YamlNode::Kind::Mapping);
  ASSERT_EQ(root->items.size(), 3U);
  EXPECT_EQ(root->items[0].key, "a");
  EXPECT_EQ(root->items[0].line, 1);
  EXPECT_EQ(root->items[0].value.text, "1");
  EXPECT_FALSE(root->items[0].value.quoted);

  const YamlNode& list = root->items[1].value;
  ASSERT_EQ(list.kind, YamlNode::Kind::Sequence);
  EXPECT_EQ(list.items[1].value.text, "8");
  EXPECT_EQ(list.items[1].value.line, 4);
  EXPECT_TRUE(list.items[1].value.quoted);

  EXPECT_EQ(root->items[2].value.kind, YamlNode::Kind::Null);
}

TEST(YamlTest, AnEmptyDocumentIsNull) {
  EXPECT_EQ(parseYaml("")->kind, YamlNode::Kind::Null);
  EXPECT_EQ(parseYaml("# only a comment\n")->kind, YamlNode::Kind::Null);
}

TEST(YamlTest, RepeatedKeysAreLeftForTheReaderToSee) {
  const auto root = parseYaml("a: 1\na: 2\n");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->items.size(), 2U);
  EXPECT_EQ(root->items[1].line, 2);
}

TEST(YamlTest, BadSyntaxNamesTheLine) {
  const auto root = parseYaml("a: 1\nb: [1, 2\nc: 3\n");
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code(), Code::InvalidArgument);
  EXPECT_GT(root.error().field("line", 0), 1);
}

TEST(YamlTest, SeveralDocumentsAreRefused) {
  const auto root = parseYaml("a: 1\n---\nb: 2\n");
  ASSERT_FALSE(root);
  EXPECT_THAT(root.error().message(), HasSubstr("one document"));
}

// yaml-cpp's own LoadAll() never returns from this.
TEST(YamlTest, ADocumentThatBeginsWithACommaIsRefused) {
  EXPECT_FALSE(parseYaml(",a: 1\n"));
}

TEST(YamlTest, KeysThatAreNoWordsAreRefused) {
  EXPECT_FALSE(parseYaml("? [a, b]\n: 1\n"));
}

TEST(YamlTest, AliasesThatStandForBillionsAreRefused) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + before;
    for (int n = 0; n < 9; ++n) bomb += ", " + before;
    bomb += "]\n";
  }
  const auto root = parseYaml(bomb);
  ASSERT_FALSE(root);
  EXPECT_THAT(root.error().message(), HasSubstr("too many"));
}

TEST(YamlTest, AnAliasToItselfIsRefused) {
  EXPECT_FALSE(parseYaml("a: &a [*a]\n"));
}

TEST(YamlTest, DeepNestingIsRefusedInsteadOfEndingTheStack) {
  EXPECT_FALSE(parseYaml(std::string(100'000, '[')));
  EXPECT_FALSE(parseYaml(std::string(100'000, '{')));
  std::string deep;
  for (int i = 0; i < 5'000; ++i) deep += std::string(static_cast<std::size_t>(i), ' ') + "a:\n";
  static_cast<void>(parseYaml(deep));
}

TEST(YamlTest, RandomBytesDoNoHarm) {
  std::uint32_t state = 12345;
  constexpr std::string_view kSigns = "ab: -[]{}&*!|>'\"%@`#\n\t,?~<\\\x80\xC3";
  for (int round = 0; round < 3'000; ++round) {
    std::string text;
    for (int i = 0; i < 40; ++i) {
      state = state * 1664525U + 1013904223U;
      text += kSigns[(state >> 16U) % kSigns.size()];
    }
    static_cast<void>(parseYaml(text));
  }
}

}  // namespace
}  // namespace nimbus
