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

// ---- versions that are given

TEST_P(VersionTest, ARecordTakesTheVersionItIsGivenAndGoesOnFromThere) {
  EXPECT_EQ(written(withVersion(put("s", "k"), 7)).version, 7U);
  EXPECT_EQ(version("s", "k"), 7U);
  EXPECT_EQ(written(put("s", "k")).version, 8U);
  EXPECT_EQ(written(withVersion(touch("s", "k", std::nullopt), 12)).version, 12U);
  EXPECT_EQ(version("s", "k"), 12U);
  EXPECT_EQ(written(touch("s", "k", std::nullopt)).version, 13U);
  EXPECT_EQ(written(withVersion(put("s", "k"), 14)).version, 14U);
  EXPECT_EQ(written(put("s", "other")).version, 1U);
}

TEST_P(VersionTest, AGivenVersionMustBeAboveTheRecordsOwn) {
  commit(withVersion(put("s", "k"), 3));
  for (const Version low : {1U, 2U, 3U}) {
    EXPECT_EQ(refused(withVersion(put("s", "k"), low)), "conflict current_version=3 operation=0");
    EXPECT_EQ(refused(withVersion(touch("s", "k", std::nullopt), low)),
              "conflict current_version=3 operation=0");
  }
  EXPECT_EQ(written(withVersion(put("s", "k"), 4)).version, 4U);
}

TEST_P(VersionTest, AGivenVersionOfANewRecordMustBeAboveAllThatWereRemoved) {
  commit(withVersion(put("s", "busy"), 5));
  commit(erase("s", "busy"));
  for (const char* key : {"busy", "new"}) {
    EXPECT_EQ(refused(withVersion(put("s", key), 5)), "conflict current_version=5 operation=0");
  }
  EXPECT_EQ(written(withVersion(put("s", "new"), 6)).version, 6U);
  EXPECT_EQ(written(withVersion(put("t", "new"), 1)).version, 1U) << "another space";
}

TEST_P(VersionTest, WhatOtherRecordsHaveIsNoBoundForAGivenVersion) {
  commit(withVersion(put("s", "high"), 9));
  EXPECT_EQ(written(withVersion(put("s", "new"), 1)).version, 1U);
}

TEST_P(VersionTest, AGivenVersionMustBeAboveThatOfARecordThatHasExpired) {
  commit(withVersion(expiring(put("s", "k"), now() + 1s), 3));
  advance(1s);
  EXPECT_EQ(refused(withVersion(put("s", "k"), 3)), "conflict current_version=3 operation=0");
  EXPECT_EQ(written(withVersion(put("s", "k"), 4)).version, 4U);
}

TEST_P(VersionTest, AGivenVersionMustBeAboveThatOfARecordThatWasSwept) {
  commit(withVersion(expiring(put("s", "k"), now() + 1s), 3));
  advance(1s + kSweptBy);
  sweepAll();
  EXPECT_EQ(refused(withVersion(put("s", "k"), 3)), "conflict current_version=3 operation=0");
  EXPECT_EQ(refused(withVersion(put("s", "new"), 3)), "conflict current_version=3 operation=0");
  EXPECT_EQ(written(withVersion(put("s", "new"), 4)).version, 4U);
}

TEST_P(VersionTest, AGivenVersionNeedNotBeAboveWhatTheSameBatchErases) {
  commit(withVersion(put("s", "a"), 8), withVersion(put("s", "b"), 8));
  commit(erase("s", "a"), withVersion(put("s", "new"), 1));
  EXPECT_EQ(version("s", "new"), 1U);
  EXPECT_EQ(refused(withVersion(put("s", "late"), 8)), "conflict current_version=8 operation=0");
  commit(withVersion(put("s", "newer"), 9), withLast(erase("s", "b"), 20));
  EXPECT_EQ(version("s", "newer"), 9U);
}

TEST_P(VersionTest, AfterAnEraseSpaceAGivenVersionMustBeAboveAllThatWereThere) {
  commit(withVersion(put("s", "k"), 4), put("s", "low"),
         withVersion(expiring(put("s", "expired"), now() + 1s), 6));
  advance(1s);
  EXPECT_EQ(refused(eraseSpace("s"), withVersion(put("s", "low"), 6)),
            "conflict current_version=6 operation=1");
  EXPECT_EQ(refused(withLast(eraseSpace("s"), 9), put("s", "x"), withVersion(put("s", "low"), 9)),
            "conflict current_version=9 operation=2");
  const Applied applied = commit(withLast(eraseSpace("s"), 9), withVersion(put("s", "low"), 10),
                                 withVersion(put("s", "k"), 12), put("s", "x"), add("s", "n", 1));
  EXPECT_EQ(applied.get<RecordWritten>(1).version, 10U);
  EXPECT_EQ(applied.get<RecordWritten>(2).version, 12U);
  EXPECT_GT(applied.get<RecordWritten>(3).version, 9U);
  EXPECT_GT(applied.get<Added>(4).version, 9U);
  EXPECT_EQ(usage("s").floor, 9U);
}

TEST_P(VersionTest, AfterAnEraseSpaceAGivenVersionMustBeAboveWhatWasRemovedBefore) {
  commit(withLast(erase("s", "k"), 5));
  EXPECT_EQ(refused(eraseSpace("s"), withVersion(put("s", "k"), 5)),
            "conflict current_version=5 operation=1");
  EXPECT_EQ(refused(withLast(eraseSpace("s"), 2), withVersion(put("s", "k"), 5)),
            "conflict current_version=5 operation=1");
  commit(eraseSpace("s"), withVersion(put("s", "k"), 6));
}

TEST_P(VersionTest, AGivenVersionIsLookedAtLast) {
  commit(put("s", "k"));
  EXPECT_EQ(refused(withVersion(expecting(put("s", "k"), 9), 1)),
            "version_conflict current_version=1 operation=0");
  EXPECT_EQ(refused(withVersion(touch("s", "absent", std::nullopt), 1)), "not_found operation=0");
  EXPECT_EQ(refused(withVersion(put("s", "k"), 1), expecting(put("s", "other"), 9)),
            "conflict current_version=1 operation=0")
      << "operations in their order";
  EXPECT_EQ(written(withVersion(expecting(put("s", "k"), 1), 2)).version, 2U);
}

TEST_P(VersionTest, ABatchRefusedForAGivenVersionDoesNothing) {
  commit(put("s", "k", "old"), put("t", "k"), put("u", "k"));
  // refused() looks at all that can be read, floors too.
  EXPECT_EQ(refused(put("s", "other"), withLast(erase("t", "k"), 40), withLast(eraseSpace("u"), 50),
                    withVersion(put("s", "k", "new"), 1)),
            "conflict current_version=1 operation=3");
}

TEST_P(VersionTest, AGivenVersionIsAtLeastOneAndNotBeyondAllNumbers) {
  for (const Version wrong : {Version{0}, kMaxVersion + 1, UINT64_MAX}) {
    EXPECT_EQ(error(withVersion(put("s", "k"), wrong)).code(), Code::InvalidArgument);
  }
  commit(withVersion(put("s", "k"), kMaxVersion));
  EXPECT_EQ(version("s", "k"), kMaxVersion);
  EXPECT_EQ(refused(withVersion(put("s", "k"), kMaxVersion)),
            "conflict current_version=9007199254740991 operation=0");
  EXPECT_EQ(written(put("s", "k")).version, kMaxVersion + 1);
}

// ---- versions that were never stored

TEST_P(VersionTest, ErasingARecordRemembersTheHighestVersionItWasGiven) {
  commit(put("s", "k"));
  EXPECT_EQ(removed(withLast(erase("s", "k"), 7)), 1U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 7}));
  EXPECT_EQ(refused(withVersion(put("s", "k"), 7)), "conflict current_version=7 operation=0");
  EXPECT_GT(written(put("s", "k")).version, 7U);
}

TEST_P(VersionTest, ErasingWhatWasNeverStoredRemembersTheHighestVersionItWasGiven) {
  EXPECT_EQ(removed(withLast(erase("s", "k"), 7)), 0U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 7}));
  EXPECT_EQ(refused(withVersion(put("s", "k"), 7)), "conflict current_version=7 operation=0");
  EXPECT_GT(added(add("s", "k", 1)).version, 7U);
}

TEST_P(VersionTest, ErasingAnExpiredRecordRemembersTheHighestVersionItWasGiven) {
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(removed(withLast(erase("s", "k"), 7)), 0U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 7}));
}

TEST_P(VersionTest, ALastVersionNeverLowersTheFloor) {
  commit(withVersion(put("s", "k"), 5));
  commit(withLast(erase("s", "k"), 2));
  EXPECT_EQ(usage("s").floor, 5U);
  commit(withLast(erase("s", "k"), 3), withLast(erase("s", "never"), 4));
  EXPECT_EQ(usage("s").floor, 5U);
  commit(withLast(eraseSpace("s"), 4));
  EXPECT_EQ(usage("s").floor, 5U);
}

TEST_P(VersionTest, OfSeveralLastVersionsTheHighestCounts) {
  commit(withLast(erase("s", "a"), 3), withLast(erase("s", "b"), 9), withLast(erase("s", "c"), 6));
  EXPECT_EQ(usage("s").floor, 9U);
  EXPECT_EQ(usage("t").floor, 0U);
}

TEST_P(VersionTest, ErasingASpaceRemembersTheHighestVersionThatWasGivenInIt) {
  commit(put("s", "k"), put("s", "m"));
  EXPECT_EQ(removed(withLast(eraseSpace("s"), 7)), 2U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 7}));
  EXPECT_EQ(removed(withLast(eraseSpace("s"), 9)), 0U);
  EXPECT_EQ(usage("s"), (Usage{0, 0, 9}));
  EXPECT_EQ(removed(withLast(eraseSpace("empty"), 4)), 0U);
  EXPECT_EQ(usage("empty"), (Usage{0, 0, 4}));
  EXPECT_GT(commit(withLast(eraseSpace("s"), 20), put("s", "k")).get<RecordWritten>(1).version,
            20U);
}

TEST_P(VersionTest, AnEraseThatIsRefusedRemembersNothing) {
  commit(put("s", "k"));
  EXPECT_EQ(refused(expecting(withLast(erase("s", "k"), 7), 3)),
            "version_conflict current_version=1 operation=0");
  EXPECT_EQ(usage("s").floor, 0U);
}

TEST_P(VersionTest, ALastVersionIsNotBeyondAllNumbers) {
  EXPECT_EQ(error(withLast(erase("s", "k"), kMaxVersion + 1)).code(), Code::InvalidArgument);
  EXPECT_EQ(error(withLast(eraseSpace("s"), UINT64_MAX)).code(), Code::InvalidArgument);
  commit(withLast(erase("s", "k"), kMaxVersion));
  EXPECT_EQ(usage("s").floor, kMaxVersion);
  EXPECT_EQ(written(put("s", "k")).version, kMaxVersion + 1);
}

// ---- the floor

TEST_P(VersionTest, TheFloorIsTheHighestVersionThatWasRemoved) {
  EXPECT_EQ(usage("s").floor, 0U);
  for (int i = 0; i < 3; ++i) commit(put("s", "a"), put("s", "b"));
  commit(put("s", "b"));
  EXPECT_EQ(usage("s").floor, 0U) << "all are there";
  commit(erase("s", "a"));
  EXPECT_EQ(usage("s").floor, 3U);
  commit(eraseSpace("s"));
  EXPECT_EQ(usage("s").floor, 4U);
  commit(erase("s", "a"), eraseSpace("t"));
  EXPECT_EQ(usage("s").floor, 4U);
  EXPECT_EQ(usage("t").floor, 0U);
}

TEST_P(VersionTest, WhatExpiresRaisesTheFloorAtThatVeryMillisecond) {
  commit(withVersion(expiring(put("s", "a"), now() + 10ms), 5), withVersion(put("s", "b"), 9),
         withVersion(expiring(put("s", "c"), now() + 20ms), 3));
  advance(9ms);
  EXPECT_EQ(usage("s").floor, 0U);
  advance(1ms);
  EXPECT_EQ(usage("s").floor, 5U);
  advance(10ms);
  EXPECT_EQ(usage("s").floor, 5U);
  commit(touch("s", "b", now()));
  EXPECT_EQ(usage("s").floor, 10U);
}

TEST_P(VersionTest, TheFloorIsTheSameAfterASweep) {
  commit(withVersion(expiring(put("s", "a"), now() + 1s), 5), withVersion(put("s", "b"), 9),
         withVersion(expiring(put("t", "a"), now() + 1s), 4), withLast(erase("t", "b"), 6));
  advance(1s + kSweptBy);
  EXPECT_EQ(usage("s").floor, 5U);
  EXPECT_EQ(usage("t").floor, 6U);
  EXPECT_EQ(sweepAll(), 2U);
  EXPECT_EQ(usage("s").floor, 5U);
  EXPECT_EQ(usage("t").floor, 6U);
}

TEST_P(VersionTest, WhatIsAboveTheFloorCanBeGivenToAnyKeyThatIsNotThere) {
  commit(withVersion(expiring(put("s", "swept"), now() + 1s), 3));
  advance(1s + kSweptBy);
  sweepAll();
  commit(withVersion(expiring(put("s", "expired"), now() + 1s), 8), withLast(erase("s", "gone"), 5),
         withVersion(put("s", "there"), 99));
  advance(1s);
  const Version next = usage("s").floor + 1;
  EXPECT_EQ(next, 9U);
  for (const char* key : {"swept", "expired", "gone", "new"}) {
    EXPECT_EQ(written(withVersion(put("s", key), next)).version, next) << key;
  }
}

TEST_P(VersionTest, TheFloorGoesWithThePartition) {
  commit(withLast(erase("s", "k"), 7));
  commit(op::DropPartition{});
  EXPECT_EQ(usage("s"), Usage{});
  EXPECT_EQ(written(withVersion(put("s", "k"), 1)).version, 1U);
}

TEST_P(VersionTest, WhatIsNotThereAtAllHasAFloorThatOutlivesTheStore) {
  commit(withVersion(put("s", "k"), 7));
  commit(withVersion(touch("s", "k", std::nullopt), 9), withLast(erase("t", "never"), 11),
         withLast(eraseSpace("u"), 13));
  if (!reopen()) return;
  EXPECT_EQ(version("s", "k"), 9U);
  EXPECT_EQ(usage("t"), (Usage{0, 0, 11}));
  EXPECT_EQ(usage("u"), (Usage{0, 0, 13}));
  EXPECT_EQ(refused(withVersion(put("t", "never"), 11)), "conflict current_version=11 operation=0");
  EXPECT_GT(written(put("u", "k")).version, 13U);
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
