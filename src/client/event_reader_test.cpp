#include "client/event_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace nimbus::client {
namespace {

using ::testing::ElementsAre;

constexpr std::string_view kStream =
    ": hello\n\nid: 7\nevent: missed\ndata: one\ndata:two\n\r\nretry: 5\ndata: x\r\n\r\nevent: "
    "none\n\n";

std::vector<std::string> read(std::string_view bytes, std::size_t piece) {
  std::vector<std::string> seen;
  EventReader reader;
  const auto sink = [&](const Event& event) {
    seen.push_back(event.type + "/" + event.id + "/" + event.data);
    return true;
  };
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    EXPECT_TRUE(reader.read(bytes.substr(at, piece), sink));
  }
  return seen;
}

TEST(EventReaderTest, ReadsEventsHoweverTheyAreCut) {
  for (std::size_t piece = 1; piece <= kStream.size(); ++piece) {
    EXPECT_THAT(read(kStream, piece), ElementsAre("missed/7/one\ntwo", "//x")) << piece;
  }
}

TEST(EventReaderTest, EndsWhenItsSinkWantsNoMore) {
  EventReader reader;
  int seen = 0;
  EXPECT_FALSE(reader.read("data: 1\n\ndata: 2\n\n", [&](const Event&) { return ++seen < 1; }));
  EXPECT_EQ(seen, 1);
}

TEST(EventReaderTest, EndsWhenALineHasNoEnd) {
  EventReader reader;
  const std::string much(EventReader::kMaxBytes + 1, 'x');
  EXPECT_FALSE(reader.read(much, [](const Event&) { return true; }));
}

}  // namespace
}  // namespace nimbus::client
