#include "runtime/frame.h"

#include <gmock/gmock.h>

#include <cstring>

namespace nimbus::runtime {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string frameOf(FrameType type, std::uint64_t request, std::vector<std::string> segments) {
  std::string bytes;
  FrameWriter writer(bytes, type, request, segments.size());
  for (const std::string& segment : segments) writer.segment(segment);
  writer.finish();
  return bytes;
}

void feed(FrameReader& reader, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = reader.room();
    const std::size_t part = std::min(room.size(), bytes.size());
    std::memcpy(room.data(), bytes.data(), part);
    reader.received(part);
    bytes.remove_prefix(part);
  }
}

TEST(FrameTest, AFrameIsAsThePageSays) {
  const std::string bytes = frameOf(FrameType::Invoke, 0x0102030405060708, {"{}", "[1]"});
  EXPECT_EQ(bytes, std::string("\x19\0\0\0"
                               "\x04\0\x02\0"
                               "\x08\x07\x06\x05\x04\x03\x02\x01"
                               "\x02\0\0\0"
                               "\x03\0\0\0"
                               "{}[1]",
                               29));
}

TEST(FrameTest, WhatIsWrittenIsRead) {
  FrameReader reader;
  feed(reader, frameOf(FrameType::Result, 7, {"{\"status\":200}", "", "x"}) +
                   frameOf(FrameType::Log, 0, {"{}"}));
  const auto first = reader.next();
  ASSERT_TRUE(first);
  ASSERT_TRUE(*first);
  EXPECT_EQ((*first)->type, FrameType::Result);
  EXPECT_EQ((*first)->request, 7U);
  EXPECT_EQ((*first)->head, "{\"status\":200}");
  EXPECT_THAT((*first)->values, ElementsAre("", "x"));
  const auto second = reader.next();
  EXPECT_EQ((**second).type, FrameType::Log);
  EXPECT_THAT((**second).values, IsEmpty());
  EXPECT_FALSE(*reader.next());
}

TEST(FrameTest, AFrameMayComeByteByByte) {
  const std::string bytes = frameOf(FrameType::State, 9, {"{\"id\":1}", std::string(300, 'v')});
  FrameReader reader;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    EXPECT_FALSE(*reader.next());
    feed(reader, std::string_view(bytes).substr(i, 1));
  }
  const auto frame = reader.next();
  ASSERT_TRUE(*frame);
  EXPECT_EQ((**frame).values.front().size(), 300U);
}

TEST(FrameTest, FramesLargerThanTheRoomComeThrough) {
  FrameReader reader;
  const std::string value(3'000'000, 'a');
  for (int i = 0; i < 3; ++i) {
    feed(reader, frameOf(FrameType::Result, 1, {"{}", value}) + frameOf(FrameType::Log, 2, {"{}"}));
    EXPECT_EQ((**reader.next()).values.front(), value);
    EXPECT_EQ((**reader.next()).request, 2U);
  }
}

TEST(FrameTest, WhatIsNoFrameIsRefused) {
  const std::string good = frameOf(FrameType::Result, 1, {"{}", "abc"});
  const auto refused = [](std::string bytes) {
    FrameReader reader;
    feed(reader, bytes);
    const auto frame = reader.next();
    return !frame && frame.error().code() == Code::FunctionCrashed;
  };
  std::string bytes = good;
  bytes[3] = '\x7f';
  EXPECT_TRUE(refused(bytes)) << "too long";
  bytes = good;
  bytes[0] = 5;
  EXPECT_TRUE(refused(bytes)) << "too short";
  bytes = good;
  bytes[6] = 0;
  EXPECT_TRUE(refused(bytes)) << "no head";
  bytes = good;
  bytes[7] = '\x7f';
  EXPECT_TRUE(refused(bytes)) << "more segments than bytes";
  bytes = good;
  bytes[16] = 100;
  EXPECT_TRUE(refused(bytes)) << "a segment beyond the end";
  bytes = good;
  bytes[20] = 1;
  EXPECT_TRUE(refused(bytes)) << "bytes of no segment";
}

}  // namespace
}  // namespace nimbus::runtime
