#include "cli/v1_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string ownerOf(std::string_view key) {
  const auto owner = parseV1Key(key);
  return owner ? owner->app + "|" + owner->user : "none";
}

TEST(V1Layout, KeysOfAllThreeForms) {
  EXPECT_EQ(ownerOf("sess:app:user"), "app|user");
  EXPECT_EQ(ownerOf("sess:{app}:{user}"), "app|user");
  EXPECT_EQ(ownerOf("sess:{app}:user"), "app|user");
  EXPECT_EQ(ownerOf("sess:app:user:with:colons"), "app|user:with:colons");
  EXPECT_EQ(ownerOf("sess:{a:b}:{u:v}"), "a:b|u:v");
  EXPECT_EQ(ownerOf("sess:{app}:{half"), "app|{half");
  for (const char* key : {"sess:", "sess:app", "sess:app:", "sess::user", "sess:{}:u",
                          "sess:{app:u", "session:app:user", "event:app:user"}) {
    EXPECT_EQ(ownerOf(key), "none") << key;
  }
}

TEST(V1Layout, EventsLieBesideTheirSession) {
  EXPECT_THAT(v1EventKeys("sess:{app}:{user}", "s"),
              ElementsAre("event:{app}:{user}:s", "event:{app}:{user}:{s}"));
}

TEST(V1Layout, ValuesOfAStateAreJsonOrTheBase64OfGo) {
  EXPECT_EQ(parseV1Session(R"({"state":{"n":12345678901234567890,"l":[ ]}})")->state,
            R"({"n":12345678901234567890,"l":[ ]})");
  EXPECT_EQ(parseV1Session(R"({"state":{"a":"eyJ4IjogMX0=","b":"aGVsbG8=","c":""}})")->state,
            R"({"a":{"x": 1},"b":"hello","c":""})");
  EXPECT_EQ(parseV1Session(R"({"state":{"a":"eyJ4IjogMX0=","b":"hello"}})")->state,
            R"({"a":"eyJ4IjogMX0=","b":"hello"})")
      << "all or none";
  EXPECT_EQ(parseV1Session(R"({"state":{"step":"done","who":"John"}})")->state,
            R"({"step":"done","who":"John"})")
      << "words that happen to be base64 of no text";
  const auto session = parseV1Session(
      R"({"state":{"temp:x":1,"app:y":1,"user:z":1,"k":1},"createdAt":"2025-01-02T03:04:05.123456789Z"})");
  EXPECT_EQ(session->state, R"({"k":1})");
  EXPECT_EQ(session->dropped_keys, 3U);
  EXPECT_EQ(session->created_at, "2025-01-02T03:04:05.123Z");
  EXPECT_EQ(parseV1Session("{}")->state, "{}");
  EXPECT_FALSE(parseV1Session("[]"));
  EXPECT_FALSE(parseV1Session("no"));
}

TEST(V1Layout, AnEventKeepsWhatItIsFoundByAndAllItHolds) {
  std::set<std::string> ids;
  const std::string json =
      R"({"id":"e1","requestID":"r","invocationId":"i","author":"a","tag":"t","n":[ 1.50 ],)"
      R"("timestamp":"2025-01-02T03:04:05.123456789Z"})";
  const auto event = convertV1Event({json, 1.7e18}, ids);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->id, "e1");
  EXPECT_EQ(event->body,
            R"({"request_id":"r","invocation_id":"i","author":"a","tag":"t","id":"e1",)"
            R"("timestamp":"2025-01-02T03:04:05.123456789Z","content":)" +
                json + "}");
}

TEST(V1Layout, AnIdThatCannotBeUsedIsReplacedAlwaysByTheSame) {
  std::set<std::string> ids;
  const auto first = convertV1Event({R"({"x":1})", 1}, ids);
  EXPECT_THAT(first->id, StartsWith("v1_"));
  EXPECT_TRUE(first->has_new_id);
  EXPECT_FALSE(convertV1Event({R"({"id":"e"})", 1}, ids)->has_new_id);
  const auto second = convertV1Event({R"({"id":"e","other":1})", 1}, ids);
  EXPECT_THAT(second->id, StartsWith("v1_")) << "an id that is there already";
  EXPECT_TRUE(convertV1Event({R"({"id":"stream"})", 1}, ids)->has_new_id);
  std::set<std::string> again;
  EXPECT_EQ(convertV1Event({R"({"x":1})", 1}, again)->id, first->id);
  EXPECT_FALSE(convertV1Event({"7", 1}, again));
}

TEST(V1Layout, WithoutATimeTheScoreIsOne) {
  std::set<std::string> ids;
  for (const double score : {1735787045.0, 1735787045000.0, 1735787045000000.0, 1735787045e9}) {
    EXPECT_THAT(convertV1Event({R"({"id":"a"})", score}, ids)->body,
                HasSubstr(R"("timestamp":"2025-01-02T03:04:05.000Z")"));
  }
  EXPECT_THAT(convertV1Event({R"({"id":"b"})", -1}, ids)->body, Not(HasSubstr("timestamp")));
}

TEST(V1Layout, EqualScoresAreOrderedByTheTimesThemselves) {
  std::vector<V1Member> members = {
      {R"({"id":"c","timestamp":"2025-01-02T03:04:05.1000003Z"})", 5},
      {R"({"id":"a","timestamp":"2025-01-02T03:04:05.1Z"})", 5},
      {R"({"id":"b","timestamp":"2025-01-02T03:04:05.1000002Z"})", 5},
      {R"({"id":"z","timestamp":"2020-01-02T03:04:05Z"})", 6},
      {R"({"id":"y"})", 7},
      {R"({"id":"x","timestamp":"2020-01-02T03:04:05Z"})", 7},
  };
  orderV1Members(members);
  std::string order;
  for (const V1Member& member : members) order += member.json[7];
  EXPECT_EQ(order, "abczyx");
}

}  // namespace
}  // namespace nimbus::cli
