// The parts of the request parser on their own, where every cut can be made to happen.
#include "http/chunked.h"
#include "http/head_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nimbus::http {
namespace {

constexpr std::string_view kHead =
    "POST /sessions/a%2Fb?x=1 HTTP/1.1\r\nHost: h:1\r\nContent-Length: 3\r\n\r\n";

TEST(HeadScannerTest, FindsTheEndHoweverTheHeadArrives) {
  const std::string received = std::string(kHead) + "abc";
  for (std::size_t cut = 0; cut < kHead.size(); ++cut) {
    HeadScanner scanner;
    ASSERT_EQ(scanner.scan(std::string_view(received).substr(0, cut), {}),
              HeadScanner::Found::NeedMore)
        << cut;
    ASSERT_EQ(scanner.scan(received, {}), HeadScanner::Found::Head) << cut;
    EXPECT_EQ(scanner.headSize(), kHead.size());
  }
}

TEST(HeadScannerTest, RefusesAtTheFirstByteThatCannotBe) {
  HeadScanner scanner;
  EXPECT_EQ(scanner.scan("GET / HTTP/1.1\r\nHost: x\r\nA: b", {}), HeadScanner::Found::NeedMore);
  EXPECT_EQ(scanner.scan("GET / HTTP/1.1\r\nHost: x\r\nA: b\n", {}), HeadScanner::Found::Refused);
  EXPECT_EQ(scanner.refusal().status, 400);
}

TEST(HeadParserTest, FieldsAreViewsIntoTheHead) {
  Request request;
  Framing framing;
  ASSERT_FALSE(parseHead(kHead, {}, request, framing));
  EXPECT_EQ(request.method, Method::Post);
  EXPECT_EQ(request.raw_path, "/sessions/a%2Fb");
  EXPECT_EQ(request.path, "/sessions/a/b");
  EXPECT_EQ(request.query, "x=1");
  EXPECT_EQ(request.header("HOST"), "h:1");
  EXPECT_EQ(request.headerCount("host"), 1U);
  for (const HeaderField& field : request.headers) {
    EXPECT_GE(field.name.data(), kHead.data());
    EXPECT_LE(field.value.data() + field.value.size(), kHead.data() + kHead.size());
  }
  EXPECT_EQ(framing.body, Framing::Body::Length);
  EXPECT_EQ(framing.content_length, 3U);
  EXPECT_TRUE(framing.keep_alive);
}

struct Decoded {
  ChunkedDecoder::Progress progress;
  std::string body;
  std::string rest;
};

Decoded decodeInTwo(std::string_view bytes, std::size_t cut) {
  ChunkedDecoder decoder;
  Decoded decoded{};
  std::string_view first = bytes.substr(0, cut);
  decoded.progress = decoder.decode(first, 1000, decoded.body);
  if (decoded.progress != ChunkedDecoder::Progress::NeedMore) {
    decoded.rest = std::string(first) + std::string(bytes.substr(cut));
    return decoded;
  }
  std::string_view second = bytes.substr(cut);
  decoded.progress = decoder.decode(second, 1000, decoded.body);
  decoded.rest = second;
  return decoded;
}

TEST(ChunkedDecoderTest, EveryCutGivesTheSameBody) {
  const std::string_view bytes = "3;x=\"y\"\r\nabc\r\n0A\r\n0123456789\r\n0\r\nT: 1\r\n\r\nNEXT";
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    const Decoded decoded = decodeInTwo(bytes, cut);
    EXPECT_EQ(decoded.progress, ChunkedDecoder::Progress::Done) << cut;
    EXPECT_EQ(decoded.body, "abc0123456789") << cut;
    EXPECT_EQ(decoded.rest, "NEXT") << cut;
  }
}

TEST(ChunkedDecoderTest, EveryCutOfABadBodyIsRefused) {
  for (const std::string_view bytes : {"3\r\nabcX\r\n0\r\n\r\n", "g\r\n", "3\nabc\r\n",
                                       "0\r\nHost: x\r\n\r\n", "3\r\nabc\r\n\r\n"}) {
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      EXPECT_EQ(decodeInTwo(bytes, cut).progress, ChunkedDecoder::Progress::Refused)
          << bytes << " cut at " << cut;
    }
  }
}

TEST(ChunkedDecoderTest, ManySmallExtensionsAddUp) {
  ChunkedDecoder decoder;
  std::string body;
  ChunkedDecoder::Progress progress = ChunkedDecoder::Progress::NeedMore;
  for (int i = 0; i < 1000 && progress == ChunkedDecoder::Progress::NeedMore; ++i) {
    std::string_view chunk = "1;12345678\r\na\r\n";
    progress = decoder.decode(chunk, 10'000, body);
  }
  EXPECT_EQ(progress, ChunkedDecoder::Progress::Refused);
  EXPECT_LT(body.size(), 600U);
}

TEST(ChunkedDecoderTest, ASizeNearTheTopOf64BitsIsTooLarge) {
  ChunkedDecoder decoder;
  std::string body = "already here";
  std::string_view bytes = "ffffffffffffffff\r\nabc";
  EXPECT_EQ(decoder.decode(bytes, 1000, body), ChunkedDecoder::Progress::Refused);
  EXPECT_EQ(decoder.refusal().status, 413);
}

}  // namespace
}  // namespace nimbus::http
