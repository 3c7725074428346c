#include <gmock/gmock.h>
#include <nimbus/function/frames.h>
#include <nimbus/function/glob.h>

namespace nimbus::native {
namespace {

using ::testing::ElementsAre;

std::string frame(std::uint64_t request, std::string_view head,
                  std::initializer_list<std::string_view> values = {}) {
  std::string out;
  appendFrame(out, FrameType::Invoke, request, head, values);
  return out;
}

TEST(FrameReaderTest, AFrameIsReadAsItWasWritten) {
  FrameReader reader;
  std::deque<Frame> frames;
  reader.feed(frame(0x0102030405060708, "{}", {"one", "", "three"}), 7, frames);
  ASSERT_EQ(frames.size(), 1U);
  EXPECT_EQ(frames[0].type, FrameType::Invoke);
  EXPECT_EQ(frames[0].request, 0x0102030405060708U);
  EXPECT_EQ(frames[0].arrived, 7);
  EXPECT_THAT(frames[0].segments, ElementsAre("{}", "one", "", "three"));
  const Frame moved = std::move(frames[0]);
  frames.clear();
  EXPECT_THAT(moved.segments, ElementsAre("{}", "one", "", "three"));
}

TEST(FrameReaderTest, FramesMayBeCutAnywhere) {
  const std::string bytes = frame(1, "{}", {"a"}) + frame(2, "{\"b\":1}") + frame(3, "{}", {"ccc"});
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    FrameReader reader;
    std::deque<Frame> frames;
    reader.feed(std::string_view(bytes).substr(0, cut), 0, frames);
    reader.feed(std::string_view(bytes).substr(cut), 0, frames);
    ASSERT_EQ(frames.size(), 3U) << cut;
    EXPECT_EQ(frames[2].segments[1], "ccc");
  }
  FrameReader reader;
  std::deque<Frame> frames;
  for (const char byte : bytes) reader.feed({&byte, 1}, 0, frames);
  EXPECT_EQ(frames.size(), 3U);
}

TEST(FrameReaderTest, ImpossibleFramesAreRefused) {
  const std::string good = frame(1, "{}", {"a"});
  const auto refused = [&](std::size_t at, char byte) {
    std::string bad = good;
    bad[at] = byte;
    FrameReader reader;
    std::deque<Frame> frames;
    EXPECT_THROW(reader.feed(bad + std::string(100, 'x'), 0, frames), ProtocolError) << at;
  };
  refused(3, '\x7f');             // longer than any frame
  refused(6, '\0');               // no segment
  refused(6, '\x7f');             // more segments than fit
  refused(kFrameHeader, '\x50');  // a segment longer than the frame
  refused(kFrameHeader, '\0');    // and one that leaves something over
}

TEST(FrameWriterTest, WhatNoFrameCanHoldIsNotBegun) {
  std::string out = "before";
  const std::vector<std::string_view> many(kMaxSegments, "");
  EXPECT_THROW(appendFrame(out, FrameType::Result, 1, "{}", many), FrameTooLarge);
  const std::string large(kMaxFrame, 'x');
  EXPECT_THROW(appendFrame(out, FrameType::Result, 1, "{}", {large}), FrameTooLarge);
  EXPECT_EQ(out, "before");
}

TEST(GlobTest, NoPatternTakesLong) {
  std::string pattern;
  for (int i = 0; i < 60; ++i) pattern += "*a";
  EXPECT_FALSE(matches(pattern + "b", std::string(256, 'a')));
  EXPECT_TRUE(matches(pattern, std::string(256, 'a')));
}

}  // namespace
}  // namespace nimbus::native
