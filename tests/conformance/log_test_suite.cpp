// Logs: appending, repeating, amending and removing entries.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(LogTest, AnAppendedEntryIsThereToRead) {
  const Appended first = appended(append("l", "e1", {{"kind", "order"}}, "body", "print-1"));
  EXPECT_EQ(first.seq, 1U);
  EXPECT_EQ(first.version, 1U);
  EXPECT_FALSE(first.repeated);
  const auto found = entry("l", "e1");
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, (Entry{1, "e1", 1, "body", "print-1", {{"kind", "order"}}}));
}

TEST_P(LogTest, ALogThatNeverWasIsEmpty) {
  EXPECT_EQ(logInfo("l"), LogInfo{});
  EXPECT_FALSE(entry("l", "e"));
  EXPECT_THAT(seqs("l"), IsEmpty());
}

TEST_P(LogTest, SeqsBeginAtOneAndHaveNoGaps) {
  for (Seq seq = 1; seq <= 30; ++seq) {
    EXPECT_EQ(appended(append("l", std::to_string(seq))).seq, seq);
  }
  EXPECT_EQ(logInfo("l").last_seq, 30U);
  EXPECT_EQ(logInfo("l").entries, 30U);
}

TEST_P(LogTest, AppendsOfOneBatchTakeTheirPlacesInTheOrderGiven) {
  commit(append("l", "a"));
  const Applied applied = commit(append("l", "b"), append("m", "x"), append("l", "c"));
  EXPECT_EQ(applied.get<Appended>(0).seq, 2U);
  EXPECT_EQ(applied.get<Appended>(1).seq, 1U);
  EXPECT_EQ(applied.get<Appended>(2).seq, 3U);
}

TEST_P(LogTest, LogsCountOnTheirOwn) {
  commit(append("l", "a"), append("l", "b"));
  EXPECT_EQ(appended(append("m", "a")).seq, 1U);
  EXPECT_EQ(logInfo("l").entries, 2U);
}

TEST_P(LogTest, ARefusedBatchLeavesNoGap) {
  commit(append("l", "a"));
  refused(append("l", "b"), expecting(put("s", "k"), 9));
  EXPECT_EQ(appended(append("l", "c")).seq, 2U);
}

TEST_P(LogTest, ValuesAndFingerprintsAreBytes) {
  const std::string value("\0\xff\n", 3);
  commit(append("l", "e", {}, value, value), append("l", "empty", {}, "", ""));
  EXPECT_EQ(entry("l", "e")->value, value);
  EXPECT_EQ(entry("l", "e")->fingerprint, value);
  EXPECT_EQ(entry("l", "empty")->value, "");
  EXPECT_EQ(entry("l", "empty")->fingerprint, "");
}

// ---- repetition

TEST_P(LogTest, ARepetitionWritesNothingAndAnswersAsTheFirstTime) {
  commit(append("l", "a"), append("l", "b", {{"i", "t"}}, "body", "print"));
  const std::string before = dump();
  const Appended again = appended(append("l", "b", {{"i", "other"}}, "other body", "print"));
  EXPECT_EQ(again.seq, 2U);
  EXPECT_EQ(again.version, 1U);
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(dump(), before);
}

TEST_P(LogTest, ARepetitionUsesNoSeq) {
  commit(append("l", "a"));
  const Applied applied = commit(append("l", "b"), append("l", "a"), append("l", "c"));
  EXPECT_EQ(applied.get<Appended>(0).seq, 2U);
  EXPECT_EQ(applied.get<Appended>(1).seq, 1U);
  EXPECT_EQ(applied.get<Appended>(2).seq, 3U);
}

TEST_P(LogTest, ARepetitionAfterAnAmendmentStillAnswersAsTheFirstTime) {
  commit(append("l", "a", {}, "first", "print"));
  commit(amend("l", "a", {}, "amended"));
  const Appended again = appended(append("l", "a", {}, "first", "print"));
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.seq, 1U);
  EXPECT_EQ(again.version, 1U);
  EXPECT_EQ(entry("l", "a")->value, "amended");
}

TEST_P(LogTest, TheSameIdWithAnotherFingerprintIsAConflict) {
  commit(append("l", "other"), append("l", "a", {}, "body", "print"));
  EXPECT_EQ(refused(append("l", "a", {}, "body", "another")), "conflict operation=0 seq=2");
  EXPECT_EQ(refused(append("l", "a", {}, "body", "")), "conflict operation=0 seq=2");
}

TEST_P(LogTest, OnlyTheFingerprintDecidesWhatIsARepetition) {
  commit(append("l", "a", {}, "body", ""));
  EXPECT_TRUE(appended(append("l", "a", {}, "another body", "")).repeated);
}

TEST_P(LogTest, ARemovedIdCanBeAppendedAgainAndIsNew) {
  commit(append("l", "a", {}, "old", "old print"));
  commit(remove("l", "a"));
  const Appended again = appended(append("l", "a", {}, "new", "new print"));
  EXPECT_EQ(again.seq, 2U);
  EXPECT_FALSE(again.repeated);
}

// ---- amend

TEST_P(LogTest, AmendReplacesValueAndTermsAndKeepsTheRest) {
  commit(append("l", "a", {{"i", "old"}}, "old", "print"));
  const Appended amended = appended(amend("l", "a", {{"i", "new"}}, "new"));
  EXPECT_EQ(amended.seq, 1U);
  EXPECT_EQ(amended.version, 2U);
  EXPECT_FALSE(amended.repeated);
  EXPECT_EQ(*entry("l", "a"), (Entry{1, "a", 2, "new", "print", {{"i", "new"}}}));
  EXPECT_EQ(logInfo("l").last_seq, 1U);
}

TEST_P(LogTest, AmendNeedsTheEntry) {
  EXPECT_EQ(refused(amend("l", "a")), "not_found operation=0");
  commit(append("l", "b"), append("m", "a"));
  EXPECT_EQ(refused(amend("l", "a")), "not_found operation=0");
}

TEST_P(LogTest, AmendHeedsAnExpectedVersion) {
  commit(append("l", "a"));
  EXPECT_EQ(appended(expecting(amend("l", "a"), 1)).version, 2U);
  EXPECT_EQ(refused(expecting(amend("l", "a"), 1)),
            "version_conflict current_version=2 operation=0");
}

// NotFound is said of every entry that is not there, whatever version somebody expected of it.
TEST_P(LogTest, AnExpectedVersionOfNoEntryIsNotFound) {
  EXPECT_EQ(refused(expecting(amend("l", "a"), 3)), "not_found operation=0");
  EXPECT_EQ(refused(expecting(remove("l", "a"), 3)), "not_found operation=0");
  EXPECT_EQ(refused(expecting(remove("l", "a"), 0)), "not_found operation=0");
}

// ---- remove

TEST_P(LogTest, RemoveTakesOneEntryAndGivesItsSeqToNobody) {
  commit(append("l", "a"), append("l", "b"), append("l", "c"));
  EXPECT_EQ(removed(remove("l", "b")), 1U);
  EXPECT_THAT(seqs("l"), ElementsAre(1, 3));
  EXPECT_EQ(logInfo("l").last_seq, 3U);
  EXPECT_EQ(logInfo("l").entries, 2U);
  EXPECT_EQ(appended(append("l", "d")).seq, 4U);
}

TEST_P(LogTest, RemovingTheNewestDoesNotGiveItsSeqOutAgain) {
  commit(append("l", "a"), append("l", "b"));
  commit(remove("l", "b"));
  EXPECT_EQ(logInfo("l").last_seq, 2U);
  EXPECT_EQ(appended(append("l", "c")).seq, 3U);
  if (!reopen()) return;
  commit(remove("l", "c"));
  ASSERT_TRUE(reopen());
  EXPECT_EQ(appended(append("l", "d")).seq, 4U);
}

TEST_P(LogTest, RemoveNeedsTheEntry) {
  EXPECT_EQ(refused(remove("l", "a")), "not_found operation=0");
  commit(append("l", "a"));
  commit(remove("l", "a"));
  EXPECT_EQ(refused(remove("l", "a")), "not_found operation=0");
}

TEST_P(LogTest, RemoveHeedsAnExpectedVersion) {
  commit(append("l", "a"));
  commit(amend("l", "a"));
  EXPECT_EQ(refused(expecting(remove("l", "a"), 1)),
            "version_conflict current_version=2 operation=0");
  EXPECT_EQ(removed(expecting(remove("l", "a"), 2)), 1U);
}

TEST_P(LogTest, RemoveRangeTakesBothEnds) {
  for (int i = 1; i <= 6; ++i)
    commit(append("l", std::to_string(i)), append("m", std::to_string(i)));
  EXPECT_EQ(removed(removeRange("l", 2, 4)), 3U);
  EXPECT_THAT(seqs("l"), ElementsAre(1, 5, 6));
  EXPECT_THAT(seqs("m"), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_FALSE(entry("l", "3"));
  EXPECT_EQ(logInfo("l").entries, 3U);
}

TEST_P(LogTest, RemoveRangeCountsOnlyWhatIsThere) {
  for (int i = 1; i <= 4; ++i) commit(append("l", std::to_string(i)));
  commit(remove("l", "2"));
  EXPECT_EQ(removed(removeRange("l", 2, 3)), 1U);
  EXPECT_EQ(removed(removeRange("l", 2, 3)), 0U);
  EXPECT_EQ(removed(removeRange("l", 100, 200)), 0U);
  EXPECT_EQ(removed(removeRange("l", 4, 1)), 0U);
  EXPECT_EQ(removed(removeRange("absent", 0, UINT64_MAX)), 0U);
}

TEST_P(LogTest, RemovingTheWholeRangeKeepsTheSeqs) {
  for (int i = 1; i <= 4; ++i) commit(append("l", std::to_string(i)));
  EXPECT_EQ(removed(removeRange("l", 0, UINT64_MAX)), 4U);
  EXPECT_EQ(logInfo("l").last_seq, 4U);
  EXPECT_EQ(logInfo("l").entries, 0U);
  EXPECT_EQ(appended(append("l", "5")).seq, 5U);
}

TEST_P(LogTest, AppendsMayFollowARemoveRange) {
  for (int i = 1; i <= 4; ++i) commit(append("l", std::to_string(i)));
  const Applied applied = commit(removeRange("l", 1, 3), append("l", "summary"));
  EXPECT_EQ(applied.get<Removed>(0).count, 3U);
  EXPECT_EQ(applied.get<Appended>(1).seq, 5U);
  EXPECT_THAT(seqs("l"), ElementsAre(4, 5));
}

TEST_P(LogTest, AppendsThatFollowARemovalFindItDone) {
  commit(append("l", "a", {}, "old", "old print"), append("l", "b", {{"i", "t"}}, "old", "print"));
  const Applied applied = commit(removeRange("l", 1, 1), removeTerm("l", "i", "t"),
                                 append("l", "a", {}, "new", "new print"), append("l", "b"));
  EXPECT_EQ(applied.get<Appended>(2).seq, 3U);
  EXPECT_FALSE(applied.get<Appended>(2).repeated);
  EXPECT_EQ(applied.get<Appended>(3).seq, 4U);
  EXPECT_EQ(entry("l", "a")->value, "new");
}

TEST_P(LogTest, WhatARemovalLeavesIsStillRepeatedOrInConflict) {
  commit(append("l", "a", {}, "x", "print"), append("l", "b", {}, "x", "print"));
  EXPECT_TRUE(commit(removeRange("l", 1, 1), append("l", "b")).get<Appended>(1).repeated);
  EXPECT_EQ(refused(removeRange("l", 1, 1), append("l", "b", {}, "x", "another")),
            "conflict operation=1 seq=2");
}

TEST_P(LogTest, DropLogIsAsIfItHadNeverBeen) {
  commit(append("l", "a", {{"i", "t"}}), append("l", "b"), append("m", "a"));
  EXPECT_EQ(removed(dropLog("l")), 2U);
  EXPECT_EQ(logInfo("l").last_seq, 0U);
  EXPECT_EQ(logInfo("l").entries, 0U);
  EXPECT_FALSE(entry("l", "a"));
  EXPECT_THAT(under("l", "i", "t"), IsEmpty());
  EXPECT_TRUE(entry("m", "a"));
  EXPECT_EQ(appended(append("l", "a")).seq, 1U);
}

TEST_P(LogTest, DroppingWhatNeverWasIsNoError) {
  EXPECT_EQ(removed(dropLog("l")), 0U);
}

// ---- conditions

TEST_P(LogTest, LogEndsAtHoldsUntilTheNextAppend) {
  commit(require::LogEndsAt{"l", 0}, append("l", "a"));
  commit(require::LogEndsAt{"l", 1}, append("l", "b"));
  const Error error = this->error(require::LogEndsAt{"l", 1}, append("l", "c"));
  EXPECT_EQ(error.code(), Code::Conflict);
  EXPECT_EQ(error.field("last_seq", -1), 2);
  EXPECT_EQ(error.field("condition", -1), 0);
  EXPECT_EQ(this->error(require::LogEndsAt{"l", 3}, append("l", "c")).field("last_seq", -1), 2);
}

TEST_P(LogTest, LogEndsAtDoesNotMindAmendmentsRemovalsAndRepetitions) {
  commit(append("l", "a"), append("l", "b"));
  commit(amend("l", "a"));
  commit(remove("l", "b"));
  commit(append("l", "a"));
  commit(require::LogEndsAt{"l", 2}, append("l", "c"));
}

TEST_P(LogTest, LogUnchangedMindsEveryChange) {
  std::uint64_t revision = logInfo("l").revision;
  EXPECT_EQ(revision, 0U);
  const auto changes = [&](Operation operation) {
    commit(require::LogUnchanged{"l", revision}, operation);
    const std::uint64_t next = logInfo("l").revision;
    EXPECT_NE(next, revision);
    const Error error = this->error(require::LogUnchanged{"l", revision}, put("s", "k"));
    EXPECT_EQ(error.code(), Code::Conflict);
    EXPECT_EQ(error.field("revision", -1), static_cast<std::int64_t>(next));
    EXPECT_EQ(error.field("condition", -1), 0);
    revision = next;
  };
  changes(append("l", "a", {{"i", "t"}}));
  changes(append("l", "b"));
  changes(append("l", "c"));
  changes(amend("l", "b"));
  changes(remove("l", "b"));
  changes(removeTerm("l", "i", "t"));
  changes(removeRange("l", 1, 3));
}

TEST_P(LogTest, LogUnchangedDoesNotMindWhatChangesNothing) {
  commit(append("l", "a"));
  const std::uint64_t revision = logInfo("l").revision;
  commit(append("l", "a"));
  commit(removeRange("l", 5, 9));
  commit(removeTerm("l", "i", "t"));
  refused(append("l", "b"), expecting(put("s", "k"), 9));
  commit(append("other", "a"));
  EXPECT_EQ(logInfo("l").revision, revision);
  commit(require::LogUnchanged{"l", revision}, append("l", "b"));
}

TEST_P(LogTest, AppendsAreToldFromOtherChanges) {
  commit(append("l", "a"), append("l", "b", {{"i", "t"}}));
  commit(amend("l", "a"));
  std::uint64_t edits = logInfo("l").edits();
  commit(append("l", "c"), append("l", "d"));
  commit(append("l", "c"));
  EXPECT_EQ(logInfo("l").edits(), edits) << "appends, repeated or not, are no edits";
  const auto edit = [&](Operation operation) {
    commit(operation, append("l", "more" + std::to_string(edits)));
    EXPECT_GT(logInfo("l").edits(), edits);
    edits = logInfo("l").edits();
  };
  edit(amend("l", "c"));
  edit(remove("l", "c"));
  edit(removeTerm("l", "i", "t"));
  edit(removeRange("l", 1, 2));
}

TEST_P(LogTest, TheRevisionOnlyGrows) {
  std::uint64_t revision = 0;
  for (int i = 0; i < 5; ++i) {
    commit(append("l", std::to_string(i)), append("l", std::to_string(i) + "b"));
    commit(amend("l", std::to_string(i)));
    EXPECT_GT(logInfo("l").revision, revision);
    revision = logInfo("l").revision;
  }
}

TEST_P(LogTest, OutlivesTheStore) {
  commit(append("l", "a", {{"i", "t"}, {"i", "u"}}, "body", "print"), append("l", "b"));
  commit(amend("l", "a", {{"i", "v"}}));
  const std::string before = dump();
  if (!reopen()) return;
  EXPECT_EQ(dump(), before);
  EXPECT_TRUE(appended(append("l", "b")).repeated);
  EXPECT_EQ(appended(append("l", "c")).seq, 3U);
}

TEST_P(LogTest, AMebibyteComesBackAsItWas) {
  std::string value(1U << 20U, 'x');
  value[77] = '\0';
  commit(append("l", "big", {}, value));
  EXPECT_TRUE(entry("l", "big")->value == value);
}

}  // namespace
}  // namespace nimbus::store::conformance
