// What the server takes for a request and what it refuses, as bytes.
#include "http/testing/test_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace nimbus::http {
namespace {

using namespace std::string_literals;

enum class After { Open, Closed };

struct Case {
  std::string name;
  std::string bytes;
  int status;
  After after;
};

std::string get(const std::string& target, const std::string& fields = "") {
  return "GET " + target + " HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n";
}
std::string post(const std::string& fields, const std::string& body) {
  return "POST /echo HTTP/1.1\r\nHost: x\r\n" + fields + "\r\n" + body;
}
std::string chunked(const std::string& body) {
  return post("Transfer-Encoding: chunked\r\n", body);
}
// `count` fields besides Host.
std::string manyFields(int count) {
  std::string fields;
  for (int i = 0; i < count; ++i) fields += "F" + std::to_string(i) + ": v\r\n";
  return fields;
}

const std::vector<Case>& cases() {
  static const std::vector<Case> kCases = {
      // Good requests, the plain and the unusual.
      {"Plain", get("/hello"), 200, After::Open},
      {"LowerCaseNames", "GET /hello HTTP/1.1\r\nhost: x\r\n\r\n", 200, After::Open},
      {"Query", get("/hello?a=b&c=%20+"), 200, After::Open},
      {"EmptyQuery", get("/hello?"), 200, After::Open},
      {"SpacesAroundValue", get("/hello", "X:  \t v \t \r\n"), 200, After::Open},
      {"EmptyValue", get("/hello", "X:\r\n"), 200, After::Open},
      {"Latin1InValue", get("/hello", "X: \xE9\r\n"), 200, After::Open},
      {"TabInValue", get("/hello", "X: a\tb\r\n"), 200, After::Open},
      {"HostWithPort", "GET /hello HTTP/1.1\r\nHost: example.org:8787\r\n\r\n", 200, After::Open},
      {"HostIsIPv6", "GET /hello HTTP/1.1\r\nHost: [::1]:8787\r\n\r\n", 200, After::Open},
      {"AbsoluteTarget", "GET http://x/hello HTTP/1.1\r\nHost: x\r\n\r\n", 200, After::Open},
      {"ZeroLength", post("Content-Length: 0\r\n", ""), 200, After::Open},
      {"GetWithBody", get("/hello", "Content-Length: 3\r\n") + "abc", 200, After::Open},
      {"NoLengthNoBody", post("", ""), 200, After::Open},
      {"OneBlankLineBefore", "\r\n" + get("/hello"), 200, After::Open},
      {"Chunked", chunked("3\r\nabc\r\n0\r\n\r\n"), 200, After::Open},
      {"ChunkedUpperCase", post("Transfer-Encoding: CHUNKED\r\n", "0\r\n\r\n"), 200, After::Open},
      {"ChunkHexDigits", chunked("a\r\n0123456789\r\nA\r\n0123456789\r\n000\r\n\r\n"), 200,
       After::Open},
      {"ChunkExtension", chunked("3;a=b;c=\"d\"\r\nabc\r\n0;x\r\n\r\n"), 200, After::Open},
      {"Trailer", chunked("0\r\nX-Sum: 1\r\n\r\n"), 200, After::Open},
      {"Http10", "GET /hello HTTP/1.0\r\n\r\n", 200, After::Closed},
      {"Http10KeepAlive", "GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 200,
       After::Open},
      {"ConnectionClose", get("/hello", "Connection: close\r\n"), 200, After::Closed},
      {"ConnectionCloseInList", get("/hello", "Connection: x, Close\r\n"), 200, After::Closed},
      {"HundredFields", get("/hello", manyFields(99)), 200, After::Open},
      {"LineOfExactly8KiB", get("/hello?" + std::string(8192 - 20, 'a')), 200, After::Open},

      // Framing: where two readers could see two different requests.
      {"LengthAndChunked", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"),
       400, After::Closed},
      {"ChunkedAndLength", post("Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n"),
       400, After::Closed},
      {"TwoLengths", post("Content-Length: 3\r\nContent-Length: 4\r\n", "abcd"), 400,
       After::Closed},
      {"TwoEqualLengths", post("Content-Length: 3\r\nContent-Length: 3\r\n", "abc"), 400,
       After::Closed},
      {"LengthList", post("Content-Length: 3, 3\r\n", "abc"), 400, After::Closed},
      {"LengthPlus", post("Content-Length: +3\r\n", "abc"), 400, After::Closed},
      {"LengthMinus", post("Content-Length: -1\r\n", "abc"), 400, After::Closed},
      {"LengthHex", post("Content-Length: 0x3\r\n", "abc"), 400, After::Closed},
      {"LengthUnderscore", post("Content-Length: 1_0\r\n", "abc"), 400, After::Closed},
      {"LengthTwoNumbers", post("Content-Length: 3 3\r\n", "abc"), 400, After::Closed},
      {"LengthEmpty", post("Content-Length:\r\n", "abc"), 400, After::Closed},
      {"LengthLeadingZero", post("Content-Length: 03\r\n", "abc"), 400, After::Closed},
      {"LengthOver64Bits", post("Content-Length: 18446744073709551616\r\n", ""), 400,
       After::Closed},
      {"CodingUnknown", post("Transfer-Encoding: gzip\r\n", ""), 501, After::Closed},
      {"CodingAlmostChunked", post("Transfer-Encoding: xchunked\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingChunkedFirst", post("Transfer-Encoding: chunked, identity\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingChunkedLast", post("Transfer-Encoding: gzip, chunked\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingLeadingComma", post("Transfer-Encoding: ,chunked\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingVerticalTab", post("Transfer-Encoding: \x0b"s + "chunked\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingTwice",
       post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n"), 400,
       After::Closed},
      {"CodingEmpty", post("Transfer-Encoding:\r\n", "0\r\n\r\n"), 400, After::Closed},
      {"CodingIn10", "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400,
       After::Closed},
      {"CodingHiddenByReturn", get("/hello", "X-Abc:\rxTransfer-Encoding: chunked\r\n"), 400,
       After::Closed},

      // Chunks.
      {"ChunkSizeHexPrefix", chunked("0x3\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeMinus", chunked("-1\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeSpaceBefore", chunked(" 3\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeSpaceAfter", chunked("3 \r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeUnderscore", chunked("3_0\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSize17Digits", chunked("00000000000000003\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeEmpty", chunked("\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeBareLF", chunked("3\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkSizeHuge", chunked("ffffffffffffffff\r\nabc"), 413, After::Closed},
      {"ChunkDataTooLong", chunked("3\r\nabcd\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkDataBareLF", chunked("3\r\nabc\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkExtensionLong", chunked("3;" + std::string(5000, 'e') + "\r\nabc\r\n0\r\n\r\n"), 400,
       After::Closed},
      {"ChunkExtensionBareLF", chunked("3;a\nb\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkExtensionBareCR", chunked("3;a\rb\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkExtensionNameless", chunked("3;=a\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkExtensionOpenQuote", chunked("3;a=\"b\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"ChunkExtensionJunk", chunked("3;a\"b\"\r\nabc\r\n0\r\n\r\n"), 400, After::Closed},
      {"TrailerLength", chunked("0\r\nContent-Length: 3\r\n\r\n"), 400, After::Closed},
      {"TrailerHost", chunked("0\r\nHost: y\r\n\r\n"), 400, After::Closed},
      {"TrailerAuthorization", chunked("0\r\nauthorization: Bearer x\r\n\r\n"), 400, After::Closed},
      {"TrailerWithoutColon", chunked("0\r\nabc\r\n\r\n"), 400, After::Closed},
      {"TrailerBareLF", chunked("0\r\nX: 1\n\r\n"), 400, After::Closed},
      {"TrailersTooLong", chunked("0\r\nX: " + std::string(9000, 't') + "\r\n\r\n"), 431,
       After::Closed},

      // Lines and fields.
      {"BareLF", "GET /hello HTTP/1.1\nHost: x\n\n", 400, After::Closed},
      {"BareLFInFields", "GET /hello HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400, After::Closed},
      {"BareCR", "GET /hello HTTP/1.1\rHost: x\r\n\r\n", 400, After::Closed},
      {"CRInValue", get("/hello", "X: a\rb\r\n"), 400, After::Closed},
      {"CRCRLF", "GET /hello HTTP/1.1\r\nHost: x\r\r\n\r\n", 400, After::Closed},
      {"SpaceBeforeColon", get("/hello", "X : v\r\n"), 400, After::Closed},
      {"SpaceBeforeFirstField", "GET /hello HTTP/1.1\r\n Host: x\r\n\r\n", 400, After::Closed},
      {"FoldWithSpace", get("/hello", "X: a\r\n b\r\n"), 400, After::Closed},
      {"FoldWithTab", get("/hello", "X: a\r\n\tb\r\n"), 400, After::Closed},
      {"NoColon", get("/hello", "Xyz\r\n"), 400, After::Closed},
      {"EmptyName", get("/hello", ": v\r\n"), 400, After::Closed},
      {"NulInValue", get("/hello", "X: a\0b\r\n"s), 400, After::Closed},
      {"ControlInValue",
       get("/hello",
           "X: a\x01"
           "b\r\n"),
       400, After::Closed},
      {"DeleteInValue", get("/hello", "X: a\x7f\r\n"), 400, After::Closed},
      {"Latin1InName", get("/hello", "X\xE9: v\r\n"), 400, After::Closed},
      {"NulInName", get("/hello", "X\0Y: v\r\n"s), 400, After::Closed},
      {"HundredAndOneFields", get("/hello", manyFields(100)), 431, After::Closed},
      {"HeadTooLong", get("/hello", "X: " + std::string(32 * 1024, 'h') + "\r\n"), 431,
       After::Closed},
      {"HeadTooLongUnfinished", "GET /hello HTTP/1.1\r\nX: " + std::string(33 * 1024, 'h'), 431,
       After::Closed},

      // Host.
      {"NoHost", "GET /hello HTTP/1.1\r\n\r\n", 400, After::Closed},
      {"TwoHosts", get("/hello", "Host: x\r\n"), 400, After::Closed},
      {"EmptyHost", "GET /hello HTTP/1.1\r\nHost:\r\n\r\n", 400, After::Closed},
      {"HostWithUser", "GET /hello HTTP/1.1\r\nHost: a@b\r\n\r\n", 400, After::Closed},
      {"HostWithSpace", "GET /hello HTTP/1.1\r\nHost: a b\r\n\r\n", 400, After::Closed},
      {"HostWithComma", "GET /hello HTTP/1.1\r\nHost: a,b\r\n\r\n", 400, After::Closed},
      {"HostWithPath", "GET /hello HTTP/1.1\r\nHost: a/b\r\n\r\n", 400, After::Closed},
      {"HostWithBadPort", "GET /hello HTTP/1.1\r\nHost: a:8x\r\n\r\n", 400, After::Closed},
      {"AbsoluteTargetOtherHost", "GET http://y/hello HTTP/1.1\r\nHost: x\r\n\r\n", 400,
       After::Closed},

      // Request line.
      {"Version12", "GET /hello HTTP/1.2\r\nHost: x\r\n\r\n", 505, After::Closed},
      {"Version99", "GET /hello HTTP/9.9\r\nHost: x\r\n\r\n", 505, After::Closed},
      {"Http2Preface", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, After::Closed},
      {"VersionTrailing", "GET /hello HTTP/1.1x\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"VersionLowerCase", "GET /hello http/1.1\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"VersionMissing", "GET /hello\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"TwoSpaces", "GET  /hello HTTP/1.1\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"TabForSpace", "GET\t/hello HTTP/1.1\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"SpaceAtEnd", "GET /hello HTTP/1.1 \r\nHost: x\r\n\r\n", 400, After::Closed},
      {"SpaceAtBegin", " GET /hello HTTP/1.1\r\nHost: x\r\n\r\n", 400, After::Closed},
      {"TwoBlankLinesBefore", "\r\n\r\n" + get("/hello"), 400, After::Closed},
      {"UnknownMethod", "BREW /hello HTTP/1.1\r\nHost: x\r\n\r\n", 501, After::Closed},
      {"LowerCaseMethod", "get /hello HTTP/1.1\r\nHost: x\r\n\r\n", 501, After::Closed},
      {"MethodTooLong", std::string(10 * 1024, 'M') + " / HTTP/1.1\r\nHost: x\r\n\r\n", 414,
       After::Closed},
      {"Trace", "TRACE /hello HTTP/1.1\r\nHost: x\r\n\r\n", 405, After::Open},
      {"Connect", "CONNECT x:80 HTTP/1.1\r\nHost: x\r\n\r\n", 405, After::Closed},
      {"LineTooLong", get("/hello?" + std::string(8192 - 19, 'a')), 414, After::Closed},
      {"LineTooLongUnfinished", "GET /" + std::string(8300, 'a'), 414, After::Closed},
      {"TlsHello", "\x16\x03\x01\x02\x00\x01\x00\x01"s, 400, After::Closed},
      {"Nonsense", "\xff\xfe\x00\x01\x02\x03"s, 400, After::Closed},

      // Target.
      {"TargetWithoutSlash", get("hello"), 400, After::Closed},
      {"TargetEmptySegment", get("//hello"), 400, After::Closed},
      {"TargetDotDot", get("/a/../hello"), 400, After::Closed},
      {"TargetDotDotAtEnd", get("/a/.."), 400, After::Closed},
      {"TargetEncodedDotDot", get("/a/%2e%2E/hello"), 400, After::Closed},
      {"TargetHalfEncodedDotDot", get("/a/.%2e/hello"), 400, After::Closed},
      {"TargetNul", get("/sessions/a%00"), 400, After::Closed},
      {"TargetBadHex", get("/sessions/%zz"), 400, After::Closed},
      {"TargetCutEncoding", get("/sessions/%4"), 400, After::Closed},
      {"TargetOverlong", get("/sessions/%c0%ae"), 400, After::Closed},
      {"TargetLoneContinuation", get("/sessions/%80"), 400, After::Closed},
      {"TargetSurrogate", get("/sessions/%ed%a0%80"), 400, After::Closed},
      {"TargetBackslash", get("/a\\b"), 400, After::Closed},
      {"TargetFragment", get("/hello#x"), 400, After::Closed},
      {"TargetRawUtf8", get("/\xC3\xA9"), 400, After::Closed},
      {"QueryBadHex", get("/hello?a=%zz"), 400, After::Closed},
      {"QueryNul", get("/hello?a=%00"), 400, After::Closed},
      {"QueryNotUtf8", get("/hello?a=%ff"), 400, After::Closed},
      {"StarWithoutOptions", get("*"), 400, After::Closed},
      {"StarWithOptions", "OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 204, After::Open},

      // Sizes and expectations.
      {"LengthOverLimit", post("Content-Length: 1048577\r\n", ""), 413, After::Closed},
      {"ExpectUnknown", post("Expect: x\r\nContent-Length: 3\r\n", "abc"), 417, After::Closed},
  };
  return kCases;
}

class StrictnessTest : public ::testing::TestWithParam<Case> {
 protected:
  static void SetUpTestSuite() {
    ServerOptions options;
    options.linger_timeout = std::chrono::milliseconds(100);
    server_ = new TestServer(std::move(options));
  }
  static void TearDownTestSuite() { delete std::exchange(server_, nullptr); }

  static inline TestServer* server_ = nullptr;
};

TEST_P(StrictnessTest, AnswersAsItMust) {
  const Case& expected = GetParam();
  RawClient client(server_->port());
  const int executed = server_->executed;
  // A request that follows must run if, and only if, the connection goes on.
  client.send(expected.bytes);
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, expected.status) << answer->body;
  EXPECT_FALSE(answer->header("Nimbus-Request-Id").empty());
  if (expected.status >= 400) {
    EXPECT_EQ(answer->header("Content-Type"), "application/problem+json");
    EXPECT_THAT(answer->body, ::testing::HasSubstr("\"request_id\":\"" +
                                                   answer->header("Nimbus-Request-Id") + "\""));
    EXPECT_LE(answer->body.size(), 512U);
  }
  client.send("POST /count HTTP/1.1\r\nHost: x\r\n\r\n");
  if (expected.after == After::Open) {
    EXPECT_EQ(answer->header("Connection") == "close", false);
    const auto second = client.receive();
    ASSERT_TRUE(second);
    EXPECT_EQ(second->status, 204);
    EXPECT_EQ(server_->executed, executed + 1);
  } else {
    EXPECT_EQ(answer->header("Connection"), "close");
    EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
    EXPECT_EQ(client.receiveAll(), "");
    EXPECT_EQ(server_->executed, executed);
  }
}

INSTANTIATE_TEST_SUITE_P(Bytes, StrictnessTest, ::testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name; });

// The second request comes in the same write here: after a refusal it must not run.
TEST(SmugglingTest, NothingAfterARefusedRequestRuns) {
  ServerOptions options;
  options.linger_timeout = std::chrono::milliseconds(100);
  TestServer server(std::move(options));
  for (const Case& each : cases()) {
    if (each.after == After::Open) continue;
    SCOPED_TRACE(each.name);
    RawClient client(server.port());
    client.send(each.bytes + "POST /count HTTP/1.1\r\nHost: x\r\n\r\n");
    const auto answer = client.receive();
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, each.status);
    EXPECT_NE(client.waitForEnd(), RawClient::Ended::StillOpen);
  }
  EXPECT_EQ(server.executed, 0);
}

// However the network cuts a request, it means the same.
TEST(SplitTest, EveryCutOfARequestGivesTheSameAnswer) {
  TestServer server;
  const std::vector<std::string> requests = {
      get("/hello", "X: y\r\n"),
      post("Content-Length: 10\r\n", "0123456789"),
      chunked("3;e=f\r\nabc\r\nA\r\n0123456789\r\n0\r\nX-T: 1\r\n\r\n"),
      "\r\n" + get("/sessions/a%2Fb"),
      "GET /hello HTTP/1.1\r\nHost: x\r\nX : bad\r\n\r\n",
      chunked("3\r\nabcd\r\n0\r\n\r\n"),
  };
  for (const std::string& request : requests) {
    RawClient whole(server.port());
    whole.send(request);
    const auto expected = whole.receive();
    ASSERT_TRUE(expected);
    for (std::size_t cut = 1; cut < request.size(); ++cut) {
      RawClient client(server.port());
      client.send(std::string_view(request).substr(0, cut));
      // The server takes the first part before the second is there, or it takes both: either way
      // the answer is the same.
      client.send(std::string_view(request).substr(cut));
      const auto answer = client.receive();
      ASSERT_TRUE(answer) << "cut at " << cut << " of " << request;
      EXPECT_EQ(answer->status, expected->status) << "cut at " << cut << " of " << request;
      if (expected->status == 200) EXPECT_EQ(answer->body, expected->body);
    }
  }
}

TEST(SplitTest, ARequestMayComeByteByByte) {
  TestServer server;
  RawClient client(server.port());
  const std::string request = chunked("3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n");
  for (const char byte : request) client.send({&byte, 1});
  const auto answer = client.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "abcde");
}

}  // namespace
}  // namespace nimbus::http
