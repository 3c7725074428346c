#include "session/session_record.h"

#include <gmock/gmock.h>

namespace nimbus::session {
namespace {

Timestamp at(std::int64_t millis) {
  return Timestamp(Millis(millis));
}

SessionRecord some() {
  SessionRecord record;
  record.reserved = 12;
  record.created_at = at(1'700'000'000'000);
  record.last_access = at(1'700'000'000'500);
  record.timeout = Millis(1000);
  record.instance = "vm-\"quoted\"";
  return record;
}

TEST(SessionRecordTest, WhatIsWrittenIsRead) {
  const auto read = SessionRecord::fromJson(some().toJson());
  ASSERT_TRUE(read);
  EXPECT_EQ(*read, some());
}

TEST(SessionRecordTest, NoTimeoutIsNotATimeoutOfNothing) {
  SessionRecord never = some();
  never.timeout.reset();
  EXPECT_EQ(*SessionRecord::fromJson(never.toJson()), never);
  SessionRecord at_once = some();
  at_once.timeout = Millis(0);
  EXPECT_EQ(*SessionRecord::fromJson(at_once.toJson()), at_once);
}

TEST(SessionRecordTest, WhatIsNotThereIsNothingAndWhatIsUnknownIsIgnored) {
  EXPECT_EQ(*SessionRecord::fromJson("{}"), SessionRecord());
  EXPECT_EQ(SessionRecord::fromJson(R"({"reserved":3,"later":[1]})")->reserved, 3U);
  EXPECT_FALSE(SessionRecord::fromJson("{\"reserved\":"));
}

// More than can be under way at once.
TEST(SessionRecordTest, AClaimMovesTheVersionPastAllThatAnOwnerCanHaveBegun) {
  constexpr store::Version kUnderWay = 100'000;
  for (const store::Version before : {store::Version{1}, versionOfFirstClaim(0), versionOfClaim(7),
                                      (versionOfFirstClaim(~0ULL) | 0xFFFFF)}) {
    EXPECT_GT(versionOfClaim(before), before + kUnderWay);
    EXPECT_LT(versionOfClaim(before), store::Version{1} << 53U);
  }
  EXPECT_NE(versionOfFirstClaim(~0ULL), versionOfFirstClaim(1ULL << 40U)) << "lives differ";
}

TEST(SessionRecordTest, ASessionIsOverFromTheMillisecondOfItsExpiryOn) {
  const SessionRecord record = some();
  EXPECT_EQ(record.expiresAt(), at(1'700'000'001'500));
  EXPECT_FALSE(record.isOver(at(1'700'000'001'499)));
  EXPECT_TRUE(record.isOver(at(1'700'000'001'500)));
  SessionRecord never = some();
  never.timeout.reset();
  EXPECT_FALSE(never.isOver(Timestamp::max()));
}

// Keys and ids are data: no choice of them reaches another session, or a function's own state.
TEST(SessionRecordTest, NoTwoSessionsLieInOnePlace) {
  EXPECT_NE(sessionPartition("a", "b:c"), sessionPartition("a:b", "c"));
  EXPECT_NE(sessionPartition("a", "b/c"), sessionPartition("a/b", "c"));
  EXPECT_NE(sessionPartition("a", ""), functionStatePartition("a"));
  EXPECT_NE(sessionDirectory("a"), sessionDirectory("a:"));
}

}  // namespace
}  // namespace nimbus::session
