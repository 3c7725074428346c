// Spaces: erasing them, what they hold, and limits on it.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

require::SpaceWithin atMostRecords(std::uint64_t records) {
  return {"s", records, 0};
}
require::SpaceWithin atMostBytes(std::uint64_t bytes) {
  return {"s", 0, bytes};
}

TEST_P(SpaceTest, EraseSpaceRemovesItsRecordsAndNoOthers) {
  commit(put("s", "a"), put("s", "b"), put("s2", "a"), put("S", "a"), put("s:a", "a"));
  EXPECT_EQ(removed(eraseSpace("s")), 2U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 1}));
  for (const char* other : {"s2", "S", "s:a"}) EXPECT_TRUE(exists(other, "a")) << other;
}

TEST_P(SpaceTest, ErasingAnEmptySpaceIsNoError) {
  EXPECT_EQ(removed(eraseSpace("s")), 0U);
  commit(put("s", "a"));
  commit(eraseSpace("s"));
  EXPECT_EQ(removed(eraseSpace("s")), 0U);
}

TEST_P(SpaceTest, WritesThatFollowAnEraseSpaceFindItEmpty) {
  const Timestamp soon = now() + 1s;
  commit(put("s", "a", "old"), put("s", "n", "41"), expiring(put("s", "e"), soon));
  const Applied applied = commit(eraseSpace("s"), put("s", "a", "new"), add("s", "n", 1),
                                 expiringIfNew(put("s", "e"), now() + 5s));
  EXPECT_EQ(applied.get<Removed>(0).count, 3U);
  EXPECT_EQ(applied.get<Added>(2).value, 1);
  EXPECT_EQ(applied.get<RecordWritten>(3).expires_at, now() + 5s);
  EXPECT_EQ(value("s", "a"), "new");
  EXPECT_EQ(value("s", "n"), "1");
}

TEST_P(SpaceTest, AddAfterEraseSpaceMayFollowText) {
  commit(put("s", "n", "text"));
  EXPECT_EQ(commit(eraseSpace("s"), add("s", "n", 3)).get<Added>(1).value, 3);
}

TEST_P(SpaceTest, UsageCountsRecordsAndTheBytesOfTheirValues) {
  EXPECT_EQ(usage("s"), Usage{});
  commit(put("s", "a", "12345"), put("s", "b", ""), put("other", "c", "123"));
  EXPECT_EQ(usage("s"), (Usage{2, 5}));
  commit(put("s", "a", "1"));
  EXPECT_EQ(usage("s"), (Usage{2, 1}));
  commit(add("s", "n", -100));
  EXPECT_EQ(usage("s"), (Usage{3, 5}));
  commit(erase("s", "a"));
  EXPECT_EQ(usage("s"), (Usage{2, 4, 2}));
}

// ---- limits

TEST_P(SpaceTest, ALimitIsReachedAndNotPassed) {
  commit(atMostRecords(2), put("s", "a"));
  commit(atMostRecords(2), put("s", "b"));
  EXPECT_EQ(refused(atMostRecords(2), put("s", "c")), "quota_exceeded condition=0 limit=2");
}

TEST_P(SpaceTest, BytesAreReachedAndNotPassed) {
  commit(atMostBytes(10), put("s", "a", "12345"));
  commit(atMostBytes(10), put("s", "b", "12345"));
  EXPECT_EQ(refused(atMostBytes(10), put("s", "c", "1")), "quota_exceeded condition=0 limit=10");
  commit(atMostBytes(10), put("s", "c", ""));
}

TEST_P(SpaceTest, OneBatchIsCountedAsAWhole) {
  EXPECT_EQ(refused(atMostRecords(2), put("s", "a"), put("s", "b"), put("s", "c")),
            "quota_exceeded condition=0 limit=2");
  commit(atMostRecords(2), put("s", "a"), put("s", "b"));
  commit(atMostRecords(2), erase("s", "a"), put("s", "c"));
  commit(atMostRecords(2), put("s", "d"), erase("s", "b"));
  EXPECT_THAT(keys({.space = "s", .after = {}, .prefix = {}}), ElementsAre("c", "d"));
}

TEST_P(SpaceTest, ReplacingCountsOnlyTheDifference) {
  commit(put("s", "a", "12345"));
  commit(atMostRecords(1), put("s", "a", "67890"));
  commit(require::SpaceWithin{"s", 1, 5}, put("s", "a", "1234"));
  EXPECT_EQ(refused(atMostBytes(5), put("s", "a", "123456")), "quota_exceeded condition=0 limit=5");
}

TEST_P(SpaceTest, ZeroMeansNoLimit) {
  Batch batch;
  batch.conditions.emplace_back(require::SpaceWithin{"s", 0, 0});
  for (int i = 0; i < 100; ++i) batch.operations.emplace_back(put("s", std::to_string(i)));
  applied(std::move(batch));
  EXPECT_EQ(usage("s").records, 100U);
}

TEST_P(SpaceTest, RecordsAreLookedAtBeforeBytes) {
  commit(put("s", "a", "12345"));
  EXPECT_EQ(refused(require::SpaceWithin{"s", 1, 6}, put("s", "b", "12345")),
            "quota_exceeded condition=0 limit=1");
  EXPECT_EQ(refused(require::SpaceWithin{"s", 2, 6}, put("s", "b", "12345")),
            "quota_exceeded condition=0 limit=6");
}

TEST_P(SpaceTest, WhatIsOverTheLimitAlreadyMayShrinkOrStay) {
  commit(put("s", "a", "12345"), put("s", "b", "12345"), put("s", "c", "12345"));
  const require::SpaceWithin within{"s", 1, 4};
  commit(within, put("s", "a", "54321"));
  commit(within, erase("s", "a"));
  commit(within, put("s", "b", "1"));
  commit(within, put("other", "x"));
  EXPECT_EQ(refused(within, put("s", "d", "")), "quota_exceeded condition=0 limit=1");
  EXPECT_EQ(refused(within, put("s", "b", "12")), "quota_exceeded condition=0 limit=4");
}

TEST_P(SpaceTest, WhatIsOverInBytesMayStillGainARecord) {
  commit(put("s", "a", "12345"));
  commit(require::SpaceWithin{"s", 5, 3}, put("s", "empty", ""));
  commit(require::SpaceWithin{"s", 5, 3}, put("s", "b", "1"), put("s", "a", "1234"));
}

TEST_P(SpaceTest, ExpiredRecordsAreNotCounted) {
  commit(expiring(put("s", "a", "12345"), now() + 1s), put("s", "b", "12345"));
  EXPECT_EQ(refused(atMostRecords(2), put("s", "c")), "quota_exceeded condition=0 limit=2");
  advance(999ms);
  EXPECT_EQ(refused(atMostRecords(2), put("s", "c")), "quota_exceeded condition=0 limit=2");
  advance(1ms);
  commit(require::SpaceWithin{"s", 2, 10}, put("s", "c", "12345"));
}

TEST_P(SpaceTest, RevivingAnExpiredKeyCountsAsNew) {
  commit(expiring(put("s", "a", "12345"), now() + 1s), put("s", "b", "12345"));
  advance(1s);
  EXPECT_EQ(refused(atMostRecords(1), put("s", "a", "1")), "quota_exceeded condition=0 limit=1");
  EXPECT_EQ(refused(atMostBytes(5), put("s", "a", "1")), "quota_exceeded condition=0 limit=5");
  commit(require::SpaceWithin{"s", 2, 6}, put("s", "a", "1"));
}

TEST_P(SpaceTest, WhatIsWrittenAlreadyExpiredIsNotCounted) {
  commit(put("s", "a"));
  commit(atMostRecords(1), expiring(put("s", "b"), now()));
  commit(atMostRecords(1), expiring(put("s", "a"), now()), put("s", "c"));
  EXPECT_THAT(keys({.space = "s", .after = {}, .prefix = {}}), ElementsAre("c"));
}

TEST_P(SpaceTest, ATouchThatEndsARecordMakesRoom) {
  commit(put("s", "a"));
  commit(atMostRecords(1), touch("s", "a", now()), put("s", "b"));
  EXPECT_EQ(usage("s").records, 1U);
}

TEST_P(SpaceTest, AddCountsTheDigitsItWrites) {
  commit(put("s", "n", "9"));
  EXPECT_EQ(refused(atMostBytes(1), add("s", "n", 1)), "quota_exceeded condition=0 limit=1");
  commit(atMostBytes(2), add("s", "n", 1));
  EXPECT_EQ(refused(atMostRecords(1), add("s", "m", 1)), "quota_exceeded condition=0 limit=1");
}

TEST_P(SpaceTest, EraseSpaceMakesRoomForWhatFollows) {
  commit(put("s", "a"), put("s", "b"));
  commit(atMostRecords(2), eraseSpace("s"), put("s", "c"), put("s", "d"));
  EXPECT_EQ(refused(atMostRecords(2), eraseSpace("s"), put("s", "e"), put("s", "f"), put("s", "g")),
            "quota_exceeded condition=0 limit=2");
}

TEST_P(SpaceTest, AFullSpaceLimitsOnlyItself) {
  commit(put("s", "a"));
  commit(atMostRecords(1), put("other", "a"), put("other", "b"));
}

TEST_P(SpaceTest, TheLimitIsLookedAtBeforeTheOperations) {
  commit(put("s", "a"));
  EXPECT_EQ(refused(atMostRecords(1), put("s", "b"), expecting(put("t", "x"), 9)),
            "quota_exceeded condition=0 limit=1");
}

TEST_P(SpaceTest, SeveralLimitsAreLookedAtInOrder) {
  commit(put("s", "a"), put("t", "a"));
  EXPECT_EQ(
      refused(require::SpaceWithin{"t", 2, 0}, atMostRecords(1), put("s", "b"), put("t", "b")),
      "quota_exceeded condition=1 limit=1");
}

TEST_P(SpaceTest, ALimitAloneIsAQuestionThatChangesNothing) {
  commit(put("s", "a"), put("s", "b"));
  commit(atMostRecords(1));
  EXPECT_EQ(version("s", "a"), 1U);
}

}  // namespace
}  // namespace nimbus::store::conformance
