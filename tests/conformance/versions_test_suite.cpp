// A version never comes back for a key, whatever removed the record, and never goes down.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(VersionTest, EachWriteGivesTheNext) {
  EXPECT_EQ(written(put("s", "k")).version, 1U);
  EXPECT_EQ(written(put("s", "k")).version, 2U);
  EXPECT_EQ(added(add("s", "n", 1)).version, 1U);
  EXPECT_EQ(written(touch("s", "k", now() + 1h)).version, 3U);
  EXPECT_EQ(written(put("s", "k", "value")).version, 4U);
}

TEST_P(VersionTest, WritingTheSameValueIsAWrite) {
  commit(put("s", "k", "same"));
  EXPECT_EQ(written(put("s", "k", "same")).version, 2U);
}

TEST_P(VersionTest, KeysCountOnTheirOwn) {
  commit(put("s", "a"));
  commit(put("s", "a"));
  EXPECT_EQ(written(put("s", "b")).version, 1U);
  EXPECT_EQ(written(put("other", "a")).version, 1U);
}

TEST_P(VersionTest, GoesOnAfterErase) {
  commit(put("s", "k"));
  commit(put("s", "k"));
  commit(erase("s", "k"));
  EXPECT_GT(written(put("s", "k")).version, 2U);
}

TEST_P(VersionTest, AnErasedVersionIsAboveThoseOfOtherNewKeys) {
  for (int i = 0; i < 5; ++i) commit(put("s", "busy"));
  commit(erase("s", "busy"));
  EXPECT_GT(written(put("s", "new")).version, 5U);
}

TEST_P(VersionTest, GoesOnAfterEraseAndRewriteManyTimes) {
  Version last = 0;
  for (int i = 0; i < 20; ++i) {
    const Version version = written(put("s", "k")).version;
    EXPECT_GT(version, last);
    last = version;
    commit(erase("s", "k"));
  }
}

TEST_P(VersionTest, AnEraseOfALowerOneDoesNotLowerTheFloor) {
  for (int i = 0; i < 9; ++i) commit(put("s", "high"));
  commit(put("s", "low"));
  commit(erase("s", "high"));
  commit(erase("s", "low"));
  EXPECT_GT(written(put("s", "high")).version, 9U);
}

TEST_P(VersionTest, GoesOnAfterEraseSpace) {
  for (int i = 0; i < 4; ++i) commit(put("s", "k"));
  commit(put("s", "other"));
  commit(eraseSpace("s"));
  EXPECT_GT(written(put("s", "k")).version, 4U);
  EXPECT_GT(written(put("s", "other")).version, 4U);
}

TEST_P(VersionTest, GoesOnInTheVeryBatchThatErasesTheSpace) {
  for (int i = 0; i < 4; ++i) commit(put("s", "k"));
  const Applied applied = commit(eraseSpace("s"), put("s", "k"), add("s", "n", 1));
  EXPECT_GT(applied.get<RecordWritten>(1).version, 4U);
  EXPECT_GT(applied.get<Added>(2).version, 4U);
}

TEST_P(VersionTest, GoesOnAfterExpiry) {
  commit(put("s", "k"));
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(version("s", "k"), 0U);
  EXPECT_GT(written(put("s", "k")).version, 2U);
}

TEST_P(VersionTest, GoesOnAfterExpiryAndSweep) {
  commit(put("s", "k"));
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s + kSweptBy);
  EXPECT_EQ(sweepAll(), 1U);
  EXPECT_GT(written(put("s", "k")).version, 2U);
}

TEST_P(VersionTest, GoesOnAfterAnExpiredRecordIsErased) {
  for (int i = 0; i < 3; ++i) commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  commit(erase("s", "k"));
  EXPECT_GT(written(put("s", "k")).version, 3U);
}

TEST_P(VersionTest, GoesOnAfterAnExpiredRecordIsErasedWithItsSpace) {
  for (int i = 0; i < 3; ++i) commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  commit(eraseSpace("s"));
  EXPECT_GT(written(put("s", "k")).version, 3U);
}

TEST_P(VersionTest, AddAndTouchGoOnToo) {
  for (int i = 0; i < 3; ++i) commit(add("s", "n", 1));
  commit(erase("s", "n"));
  EXPECT_GT(added(add("s", "n", 1)).version, 3U);
  EXPECT_GT(written(touch("s", "n", now() + 1s)).version, 4U);
  advance(1s);
  EXPECT_GT(added(add("s", "n", 1)).version, 5U);
}

TEST_P(VersionTest, ARefusedWriteUsesNoVersion) {
  commit(put("s", "k"));
  refused(put("s", "k"), expecting(put("s", "other"), 9));
  EXPECT_EQ(written(put("s", "k")).version, 2U);
}

TEST_P(VersionTest, AnExpectedVersionFromBeforeTheDeletionNeverFits) {
  commit(put("s", "k", "old"));
  commit(erase("s", "k"));
  commit(put("s", "k", "new"));
  EXPECT_EQ(error(expecting(put("s", "k", "stale"), 1)).code(), Code::VersionConflict);
  EXPECT_EQ(value("s", "k"), "new");
}

TEST_P(VersionTest, AfterExpiryTheRecordIsAbsentToWhoeverExpects) {
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(refused(expecting(put("s", "k"), 1)), "version_conflict current_version=0 operation=0");
  EXPECT_EQ(refused(require::RecordVersion{"s", "k", 1}, put("s", "other")),
            "version_conflict condition=0 current_version=0");
  EXPECT_GT(written(expecting(put("s", "k"), 0)).version, 1U);
}

TEST_P(VersionTest, TheFloorOutlivesTheStore) {
  for (int i = 0; i < 6; ++i) commit(put("s", "erased"), put("t", "swept"), put("u", "cleared"));
  commit(erase("s", "erased"), touch("t", "swept", now() + 1s), eraseSpace("u"));
  advance(1s + kSweptBy);
  sweepAll();
  if (!reopen()) return;
  EXPECT_GT(written(put("s", "erased")).version, 6U);
  EXPECT_GT(written(put("t", "swept")).version, 7U);
  EXPECT_GT(written(put("u", "cleared")).version, 6U);
}

TEST_P(VersionTest, AnExpiredVersionOutlivesTheStore) {
  for (int i = 0; i < 3; ++i) commit(expiring(put("s", "k"), now() + 1s));
  if (!reopen()) return;
  advance(1s);
  EXPECT_GT(written(put("s", "k")).version, 3U);
}

}  // namespace
}  // namespace nimbus::store::conformance
