#include "base/json.h"

#include <gmock/gmock.h>

namespace nimbus {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonTest, TextIsCheckedWhole) {
  EXPECT_TRUE(checkJson(R"({"a":[1,2.5e3,"x",null,true]})"));
  EXPECT_TRUE(checkJson(" 7 \n"));
  for (const char* bad : {"", " ", "{", R"({"a":})", "[1,]", "nul", "01", "1 2", "'a'", "\"\x01\"",
                          "\"\xff\"", "[1]]", "NaN", "+1"}) {
    const auto checked = checkJson(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code(), Code::InvalidJson) << bad;
  }
}

TEST(JsonTest, NumbersBeyondWhatAMachineHoldsAreJson) {
  EXPECT_TRUE(checkJson("123456789012345678901234567890"));
  EXPECT_TRUE(checkJson("[1e400, -1E-400, 18446744073709551616]"));
  EXPECT_FALSE(checkJson("[1e400, ]"));
  EXPECT_FALSE(checkJson("[1e400, 01]"));
  EXPECT_FALSE(checkJson("1e400 2"));
  EXPECT_FALSE(checkJson("[\"\xff\", 1e400]"));
  EXPECT_FALSE(checkJson(std::string(65, '[') + "1e400" + std::string(65, ']')));
}

TEST(JsonTest, NestingIsBounded) {
  EXPECT_TRUE(checkJson(nested(64)));
  EXPECT_FALSE(checkJson(nested(65)));
  EXPECT_FALSE(checkJson(nested(100'000)));
  EXPECT_TRUE(checkJson(nested(64))) << "a refusal does not spoil the next";
}

TEST(JsonTest, MembersAreFoundByName) {
  const auto root = parseJson(R"({"n": -5, "s": "a\u00e4\n", "b": false, "x": 1.5, "big": 1e30})");
  ASSERT_TRUE(root);
  EXPECT_EQ(root->integer("n"), -5);
  EXPECT_EQ(root->string("s"), "a\xc3\xa4\n");
  EXPECT_EQ(root->boolean("b"), false);
  EXPECT_EQ(root->integer("x"), std::nullopt);
  EXPECT_EQ(root->member("x")->number(), 1.5);
  EXPECT_EQ(root->member("n")->number(), -5.0);
  EXPECT_EQ(root->integer("big"), std::nullopt);
  EXPECT_EQ(root->integer("missing"), std::nullopt);
  EXPECT_EQ(root->string("n"), std::nullopt);
}

TEST(JsonTest, AnIntegerHas64BitsAndASign) {
  EXPECT_EQ(parseJson("9223372036854775807")->integer(), INT64_MAX);
  EXPECT_EQ(parseJson("-9223372036854775808")->integer(), INT64_MIN);
  EXPECT_EQ(parseJson("9223372036854775808")->integer(), std::nullopt);
  EXPECT_EQ(parseJson("1.0")->integer(), std::nullopt);
}

TEST(JsonTest, AnObjectIsSplitIntoTextAsItStands) {
  const std::string text =
      " {\"payload\" : { \"a\":[1 , 2.50]} , \"k\\u0065y\":\"v\" ,\"n\": 1e400x }";
  EXPECT_FALSE(splitObject(text));
  const std::string good =
      " {\"payload\" : { \"a\":[1 , 2.50]} , \"k\\u0065y\":\"v\\n\" ,\"n\": "
      "123456789012345678901234567890 }";
  const auto members = splitObject(good);
  ASSERT_TRUE(members) << members.error().message();
  ASSERT_EQ(members->size(), 3U);
  EXPECT_EQ((*members)[0].name, "payload");
  EXPECT_EQ((*members)[0].value, "{ \"a\":[1 , 2.50]}");
  EXPECT_EQ((*members)[1].name, "key");
  EXPECT_EQ((*members)[1].value, "\"v\\n\"");
  EXPECT_EQ((*members)[2].value, "123456789012345678901234567890");
  EXPECT_GE((*members)[0].value.data(), good.data());
}

TEST(JsonTest, WhatIsNoObjectOrNamesAMemberTwiceIsRefused) {
  EXPECT_EQ(splitObject("[1]").error().code(), Code::InvalidArgument);
  EXPECT_EQ(splitObject("7").error().code(), Code::InvalidArgument);
  EXPECT_EQ(splitObject(R"({"a":1,"a":2})").error().code(), Code::InvalidArgument);
  EXPECT_EQ(splitObject(R"({"a":1)").error().code(), Code::InvalidJson);
  EXPECT_THAT(*splitObject("{}"), IsEmpty());
}

TEST(JsonTest, AnArrayIsSplitAsItStands) {
  EXPECT_THAT(*splitArray(R"( [1 , {"a":[ ]},"x,]" ] )"),
              ElementsAre("1", R"({"a":[ ]})", R"("x,]")"));
  EXPECT_THAT(*splitArray("[]"), IsEmpty());
  EXPECT_EQ(splitArray("{}").error().code(), Code::InvalidArgument);
  EXPECT_EQ(splitArray("[1").error().code(), Code::InvalidJson);
}

TEST(JsonTest, ElementsAndMembersComeInOrder) {
  const auto root = parseJson(R"({"z":[1,2,3],"a":{}})");
  std::vector<std::string> names;
  for (const auto& [name, value] : root->members()) names.emplace_back(name);
  EXPECT_THAT(names, ElementsAre("z", "a"));
  std::vector<std::int64_t> numbers;
  for (const JsonValue& value : root->member("z")->elements()) numbers.push_back(*value.integer());
  EXPECT_THAT(numbers, ElementsAre(1, 2, 3));
}

TEST(JsonTest, LargeTextDoesNotStayWithTheThread) {
  const std::string large = "[\"" + std::string(4'000'000, 'x') + "\"]";
  EXPECT_TRUE(checkJson(large));
  EXPECT_TRUE(checkJson("[]"));
  EXPECT_TRUE(splitObject("{\"a\":" + large + "}"));
}

}  // namespace
}  // namespace nimbus
