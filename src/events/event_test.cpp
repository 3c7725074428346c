#include "events/event.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::events {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::vector<std::string> kAll(kIndexes.begin(), kIndexes.end());
const Timestamp kNow{Millis(1'700'000'000'123)};

store::Entry entryOf(const std::string& json) {
  const NewEvent event = *parseEvent(json);
  const StoredHead head{kNow, 0, event.timestamp.value_or(kNow)};
  store::Entry entry;
  entry.seq = 7;
  entry.id = "e";
  entry.version = 2;
  entry.value = storedText(event, head);
  entry.terms = termsOf(event, head.timestamp, kAll);
  return entry;
}

TEST(EventTest, ContentComesBackByteForByte) {
  const std::string content =
      R"({"big":123456789012345678901234567890,"e":1.50e+2, "list":[ ],"obj":{},"s":"\u00e9\/"})";
  EXPECT_THAT(eventText(entryOf(R"({"content":)" + content + "}")),
              HasSubstr(R"("content":)" + content));
}

TEST(EventTest, ATimestampStaysAsItWasWritten) {
  const std::string text =
      eventText(entryOf(R"({"content":1,"timestamp":"2026-01-31T10:08:07.123456789+01:00"})"));
  EXPECT_THAT(text, HasSubstr(R"("timestamp":"2026-01-31T10:08:07.123456789+01:00")"));
  EXPECT_EQ(eventText(entryOf(R"({"content":1})")),
            R"({"id":"e","seq":7,"version":2,"created_at":"2023-11-14T22:13:20.123Z",)"
            R"("timestamp":"2023-11-14T22:13:20.123Z","content":1})");
}

TEST(EventTest, TheOrderOfMembersAndWhatTheServerSaysMakeNoOtherEvent) {
  const auto fingerprint = [](const char* json) { return parseEvent(json)->fingerprint; };
  EXPECT_EQ(fingerprint(R"({"id":"a","content":[1]})"),
            fingerprint(R"({ "content" : [1], "id":"a", "seq":9, "version":3 })"));
  EXPECT_NE(fingerprint(R"({"id":"a","content":[1]})"), fingerprint(R"({"id":"a","content":[2]})"));
  EXPECT_NE(fingerprint(R"({"id":"a","content":[1]})"),
            fingerprint(R"({"id":"a","content":[1],"author":"x"})"));
}

TEST(EventTest, NullIsNoRequestId) {
  EXPECT_FALSE(parseEvent(R"({"content":1,"request_id":null})")->field("request_id"));
  EXPECT_FALSE(conversationOf(entryOf(R"({"content":1,"request_id":null})")));
  EXPECT_EQ(conversationOf(entryOf(R"({"content":1,"request_id":"r"})")), "r");
}

TEST(EventTest, BadFieldsAreNamed) {
  for (const char* json : {R"({})", R"({"content":1,"id":""})", R"({"content":1,"id":7})",
                           R"({"content":1,"id":"stream"})", R"({"content":1,"author":"a\u0000b"})",
                           R"({"content":1,"timestamp":"yesterday"})",
                           R"({"content":1,"timestamp":12})", R"({"content":1,"state_delta":[]})",
                           R"({"content":1,"state_delta":{"app:":1}})", R"([1])", R"(7)"}) {
    const auto event = parseEvent(json);
    ASSERT_FALSE(event) << json;
    EXPECT_EQ(event.error().code(), Code::InvalidArgument) << json;
  }
  EXPECT_EQ(parseEvent("{").error().code(), Code::InvalidJson);
}

TEST(EventTest, ADeltaIsSplitByWhereItGoes) {
  const StateDelta delta =
      *parseDelta(R"({"a":1,"app:b":[ 2 ],"user:c":null,"temp:d":4,"x:y":"z"})");
  EXPECT_THAT(delta.session, ElementsAre(Change{"a", "1"}, Change{"x:y", "\"z\""}));
  EXPECT_THAT(delta.app, ElementsAre(Change{"b", "[ 2 ]"}));
  EXPECT_THAT(delta.user, ElementsAre(Change{"c", std::nullopt}));
}

TEST(EventTest, ManyEventsComeAsAnArray) {
  EXPECT_THAT(*parseEvents(R"([{"content":1},{"content":2}])"), SizeIs(2));
  EXPECT_THAT(*parseEvents(R"( {"content":1} )"), SizeIs(1));
  EXPECT_FALSE(parseEvents("[]"));
  EXPECT_FALSE(parseEvents(R"([{"id":"a","content":1},{"id":"a","content":1}])"));
  std::string many = "[";
  for (std::size_t i = 0; i <= kMaxEvents; ++i) many += R"({"content":1},)";
  many.back() = ']';
  EXPECT_EQ(parseEvents(many).error().field("limit", 0), 500);
}

TEST(EventTest, TermsFollowFromWhatIsStored) {
  const store::Entry entry =
      entryOf(R"({"content":1,"request_id":"r","author":"a\"b","tag":null,"invocation_id":"i"})");
  EXPECT_EQ(*termsOf(entry.value, kAll), entry.terms);
  EXPECT_THAT(*termsOf(entry.value, {}), SizeIs(2)) << "the conversation and the time";
  EXPECT_FALSE(termsOf("nonsense", kAll));
}

TEST(EventTest, AFieldIsFoundWithoutItsIndex) {
  store::Entry entry = entryOf(R"({"content":1,"author":"me"})");
  entry.terms.clear();
  EXPECT_EQ(fieldOf(entry, "author"), "me");
  EXPECT_EQ(fieldOf(entry, "tag"), std::nullopt);
}

}  // namespace
}  // namespace nimbus::events
