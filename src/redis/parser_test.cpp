#include "redis/parser.h"

#include "redis/address.h"
#include "redis/command.h"
#include "redis/slot.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::redis {
namespace {

std::string text(const Value& value) {
  switch (value.kind) {
    case Value::Kind::Null:
      return "null";
    case Value::Kind::Text:
      return "'" + value.text + "'";
    case Value::Kind::Error:
      return "error '" + value.text + "'";
    case Value::Kind::Integer:
      return std::to_string(value.integer);
    case Value::Kind::Array:
    case Value::Kind::Push:
      break;
  }
  std::string items;
  for (const Value& item : value.items) items += (items.empty() ? "" : " ") + text(item);
  return (value.kind == Value::Kind::Push ? "push(" : "(") + items + ")";
}

// All values in the bytes, fed in pieces of that size.
std::string parsed(std::string_view bytes, std::size_t piece) {
  Parser parser;
  std::string out;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    parser.feed(bytes.substr(at, piece));
    while (true) {
      const auto value = parser.next();
      if (!value) return out + "malformed";
      if (!*value) break;
      out += text(**value) + "\n";
    }
  }
  return out;
}
std::string parsed(std::string_view bytes) {
  const std::string whole = parsed(bytes, bytes.size() + 1);
  for (const std::size_t piece : {1U, 2U, 3U, 7U}) EXPECT_EQ(parsed(bytes, piece), whole);
  return whole;
}

TEST(ParserTest, ReadsWhatARedisServerSays) {
  EXPECT_EQ(parsed("+OK\r\n"), "'OK'\n");
  EXPECT_EQ(parsed("-ERR unknown command\r\n"), "error 'ERR unknown command'\n");
  EXPECT_EQ(parsed(":-42\r\n:9223372036854775807\r\n"), "-42\n9223372036854775807\n");
  EXPECT_EQ(parsed("$5\r\nhe\r\no\r\n$0\r\n\r\n"), "'he\r\no'\n''\n");
  EXPECT_EQ(parsed("$-1\r\n*-1\r\n_\r\n"), "null\nnull\nnull\n");
  EXPECT_EQ(parsed("*3\r\n:1\r\n*2\r\n+a\r\n*0\r\n$1\r\nb\r\n"), "(1 ('a' ()) 'b')\n");
  EXPECT_EQ(parsed("%1\r\n+proto\r\n:3\r\n~1\r\n#t\r\n,1.5\r\n(99999999999999999999\r\n"),
            "('proto' 3)\n(1)\n'1.5'\n'99999999999999999999'\n");
  EXPECT_EQ(parsed("=8\r\ntxt:text\r\n!3\r\nERR\r\n"), "'text'\nerror 'ERR'\n");
  EXPECT_EQ(parsed(">2\r\n+smessage\r\n+c\r\n:1\r\n"), "push('smessage' 'c')\n1\n");
}

TEST(ParserTest, DropsAttributes) {
  EXPECT_EQ(parsed("|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n"), "'v'\n");
  EXPECT_EQ(parsed("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:7\r\n|0\r\n:8\r\n"), "(7 8)\n");
}

TEST(ParserTest, RefusesWhatIsNotResp) {
  for (const char* bytes :
       {"hello\r\n", "\r\n", ":\r\n", ":1x\r\n", "$3\r\nabcde\r\n", "$-2\r\n", "#x\r\n", "*-2\r\n",
        "$99999999999\r\n", "*99999999999\r\n", "=2\r\nab\r\n", "*1\r\n>1\r\n:1\r\n"}) {
    EXPECT_THAT(parsed(bytes), ::testing::EndsWith("malformed")) << bytes;
  }
}

TEST(ParserTest, RefusesWhatIsNestedTooDeep) {
  std::string deep;
  for (std::size_t i = 0; i <= Parser::kMaxDepth; ++i) deep += "*1\r\n";
  EXPECT_EQ(parsed(deep), "malformed");
}

TEST(ParserTest, RefusesALineWithoutAnEnd) {
  EXPECT_EQ(parsed(std::string(Parser::kMaxLine + 1, '+'), Parser::kMaxLine), "malformed");
}

TEST(CommandTest, IsAnArrayOfTexts) {
  EXPECT_EQ(Command("SET").add("k\r\n").add(-12).bytes(),
            "*3\r\n$3\r\nSET\r\n$3\r\nk\r\n\r\n$3\r\n-12\r\n");
}

TEST(ScriptTest, IsKnownByItsDigest) {
  EXPECT_EQ(Script("return 1").sha1(), "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
}

TEST(SlotTest, IsThatOfTheHashTag) {
  EXPECT_EQ(slotOf("123456789"), 0x31C3U);
  EXPECT_EQ(slotOf("state:{session:cart:alice}"), slotOf("session:cart:alice"));
  EXPECT_EQ(slotOf("a{b}{c}"), slotOf("b"));
  EXPECT_EQ(slotOf("{}a"), slotOf("{}a"));
  EXPECT_NE(slotOf("{}a"), slotOf("{}b"));
  EXPECT_NE(slotOf("{a"), slotOf("{b"));
}

TEST(UrlTest, SaysWhereAndAsWhom) {
  const auto url = parseUrl("redis://al%40ice:p%3Aw@h1:1,[::1]:2,h3/7");
  ASSERT_TRUE(url);
  EXPECT_THAT(url->addresses,
              ::testing::ElementsAre(Address{"h1", 1}, Address{"::1", 2}, Address{"h3", 6379}));
  EXPECT_EQ(url->credentials.username, "al@ice");
  EXPECT_EQ(url->credentials.password, "p:w");
  EXPECT_EQ(url->database, 7);
  EXPECT_FALSE(url->cluster);
  EXPECT_EQ(toString(url->addresses[1]), "[::1]:2");
  EXPECT_TRUE(parseUrl("redis+cluster://a:1,b:2")->cluster);
  EXPECT_TRUE(parseUrl("rediss+cluster://a:1")->tls);
  EXPECT_EQ(parseUrl("redis://secret@h")->credentials.password, "secret");
}

TEST(UrlTest, RefusesWhatIsNone) {
  for (const char* text : {"", "h:1", "http://h", "redis://", "redis://h:0", "redis://h:99999",
                           "redis://h/x", "redis://%zz@h", "redis+cluster://h/1", "redis://h:1,"}) {
    EXPECT_FALSE(parseUrl(text)) << text;
  }
}

}  // namespace
}  // namespace nimbus::redis
