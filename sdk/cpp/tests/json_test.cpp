#include <gmock/gmock.h>
#include <nimbus/function/json.h>

#include <limits>
#include <thread>

namespace nimbus {
namespace {

using ::testing::HasSubstr;

std::string rewritten(std::string_view text) {
  return Json::parse(text).text();
}

std::string refusal(std::string_view text) {
  try {
    static_cast<void>(Json::parse(text));
  } catch (const JsonError& error) {
    return error.what();
  }
  return "it was taken";
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

TEST(JsonTest, ValuesAreWrittenCompactInTheOrderTheyHave) {
  EXPECT_EQ(rewritten(" { \"b\" : [ 1 , true , null ] , \"a\" : \"x\" } \n"),
            R"({"b":[1,true,null],"a":"x"})");
  EXPECT_EQ(rewritten("[]"), "[]");
  EXPECT_EQ(rewritten("{}"), "{}");
  EXPECT_EQ(Json::object({{"n", 1}, {"s", "two"}, {"l", Json::array({1.5, nullptr})}}).text(),
            R"({"n":1,"s":"two","l":[1.5,null]})");
}

TEST(JsonTest, IntegersAreExactAndOtherNumbersKeepTheirSpelling) {
  EXPECT_EQ(Json::parse("-9223372036854775808").asInt(), std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(Json::parse("9223372036854775807").asInt(), std::numeric_limits<std::int64_t>::max());
  for (const char* const text : {"9223372036854775808", "1.50", "1e400", "-0", "0.1", "1E2"}) {
    EXPECT_EQ(rewritten(text), text);
    EXPECT_FALSE(Json::parse(text).isInteger());
    EXPECT_TRUE(Json::parse(text).isNumber());
  }
  EXPECT_EQ(Json(std::numeric_limits<std::uint64_t>::max()).text(), "18446744073709551615");
  EXPECT_EQ(Json(0.1).text(), "0.1");
  EXPECT_EQ(Json::parse("1E2").asDouble(), 100.0);
  EXPECT_EQ(Json::parse("7").asDouble(), 7.0);
  EXPECT_THROW(static_cast<void>(Json::parse("1e400").asDouble()), JsonError);
}

TEST(JsonTest, StringsAreDecodedAndEscaped) {
  EXPECT_EQ(Json::parse(R"("a\"\\\/\b\f\n\r\t\u00e4\ud834\udd1e\u0000")").asString(),
            std::string("a\"\\/\b\f\n\r\t\xC3\xA4\xF0\x9D\x84\x9E\0", 16));
  EXPECT_EQ(Json("\"\\\n\x01 \xC3\xA4").text(), "\"\\\"\\\\\\n\\u0001 \xC3\xA4\"");
}

TEST(JsonTest, WhatIsNoJsonIsRefusedWithThePlace) {
  for (const char* const text : {"",
                                 " ",
                                 "[",
                                 "[1,]",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{a:1}",
                                 "{\"a\":1,}",
                                 "01",
                                 "1.",
                                 ".5",
                                 "-",
                                 "+1",
                                 "1e",
                                 "nul",
                                 "truE",
                                 "\"",
                                 "\"\\x\"",
                                 "\"\\u12\"",
                                 "\"\\ud800\"",
                                 "\"\\ud800\\u0041\"",
                                 "\"\\udc00\"",
                                 "\"\n\"",
                                 "1 2",
                                 "[1 2]",
                                 "NaN",
                                 "\xEF\xBB\xBF"
                                 "1"}) {
    EXPECT_THAT(refusal(text), HasSubstr("at byte")) << text;
  }
}

TEST(JsonTest, StringsThatAreNotUtf8AreRefusedBothWays) {
  for (const char* const text : {"\xFF", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80"}) {
    EXPECT_THAT(refusal("\"" + std::string(text) + "\""), HasSubstr("not UTF-8"));
    EXPECT_THROW(static_cast<void>(Json(text).text()), JsonError);
    EXPECT_EQ(native::toUtf8(text).substr(0, 3), "\xEF\xBF\xBD");
  }
}

TEST(JsonTest, NestingHasAnEnd) {
  EXPECT_EQ(rewritten(nested(64)), nested(64));
  EXPECT_THAT(refusal(nested(65)), HasSubstr("inside each other"));
  EXPECT_THAT(refusal(nested(10'000'000)), HasSubstr("inside each other"));
  EXPECT_THROW(static_cast<void>(Json::array({Json::parse(nested(64))}).text()), JsonError);
  EXPECT_THROW(static_cast<void>(Json::array({Json::ofText(nested(64))}).text()), JsonError);
  EXPECT_EQ(Json::array({Json::ofText(nested(63))}).text(), nested(64));
}

TEST(JsonTest, WhatNobodyTouchesStaysAsItCame) {
  const std::string text = " { \"a\" : 1.00 , \"a\" : [ ] } ";
  const Json value = Json::ofText(text);
  EXPECT_EQ(value["a"].size(), 0U);  // the last one counts
  EXPECT_EQ(value.text(), text);
  EXPECT_EQ(Json::object({{"in", value}}).text(), "{\"in\":" + text + "}");
  Json changed = value;
  changed["b"] = 2;
  EXPECT_EQ(changed.text(), R"({"a":1.00,"a":[],"b":2})");
  EXPECT_EQ(value.text(), text);
}

TEST(JsonTest, MissingMembersAreNullAndMissingElementsAreErrors) {
  const Json value = Json::parse(R"({"list":[1]})");
  EXPECT_TRUE(value["nowhere"].isNull());
  EXPECT_TRUE(value["nowhere"]["deeper"].isNull());
  EXPECT_EQ(value["nowhere"].asInt(5), 5);
  EXPECT_EQ(value["nowhere"].asString("x"), "x");
  EXPECT_EQ(value.find("nowhere"), nullptr);
  EXPECT_EQ(value["list"][0].asInt(), 1);
  EXPECT_THROW(static_cast<void>(value["list"][1]), JsonError);
  EXPECT_THROW(static_cast<void>(value["list"][-1]), JsonError);
  EXPECT_THROW(static_cast<void>(value["list"]["name"]), JsonError);
  EXPECT_THROW(static_cast<void>(value[0]), JsonError);
}

TEST(JsonTest, AnotherKindThanAskedForIsNamed) {
  try {
    static_cast<void>(Json("text").asInt());
    FAIL();
  } catch (const JsonError& error) {
    EXPECT_STREQ(error.what(), "this is a string, not an integer of 64 bits");
  }
  EXPECT_THROW(static_cast<void>(Json(5).asInt(0) + Json(true).asInt(0)), JsonError);
}

TEST(JsonTest, ValuesAreChangedInPlace) {
  Json value;
  value["list"].append(1);
  value["list"].append("two");
  value["list"][0] = 7;
  value["gone"] = true;
  EXPECT_TRUE(value.remove("gone"));
  EXPECT_FALSE(value.remove("gone"));
  EXPECT_EQ(value.text(), R"({"list":[7,"two"]})");
  value["self"] = Json(value);
  EXPECT_EQ(value.text(), R"({"list":[7,"two"],"self":{"list":[7,"two"]}})");
  EXPECT_THROW(value.append(1), JsonError);
}

TEST(JsonTest, EqualityIsOfWhatTheyMean) {
  EXPECT_EQ(Json::parse(R"({"a":1,"b":[1.50]})"), Json::parse(R"({ "b":[1.5], "a":1 })"));
  EXPECT_EQ(Json::ofText("[1]"), Json::array({1}));
  EXPECT_NE(Json(1), Json("1"));
  EXPECT_NE(Json(true), Json(false));
  EXPECT_NE(Json(true), Json(1));
  EXPECT_NE(Json::parse("[1]"), Json::parse("[1,2]"));
  EXPECT_NE(Json::parse(R"({"a":1})"), Json::parse(R"({"b":1})"));
  EXPECT_EQ(Json(), Json(nullptr));
}

TEST(JsonTest, WhatCannotBeJsonIsNotWritten) {
  EXPECT_THROW(static_cast<void>(Json(std::numeric_limits<double>::quiet_NaN()).text()), JsonError);
  EXPECT_THROW(static_cast<void>(Json(std::numeric_limits<double>::infinity()).text()), JsonError);
}

TEST(JsonTest, ManyThreadsMayBeTheFirstToLookInside) {
  const Json value = Json::ofText(R"({"numbers":[1,2,3]})");
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> sum = 0;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (const Json& number : value["numbers"].elements()) sum += number.asInt();
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 24);
}

}  // namespace
}  // namespace nimbus
