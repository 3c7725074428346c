// Expiry is exact by the store's clock, and sweeping changes nothing that can be read.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(ExpiryTest, ARecordIsThereUntilItsLastMillisecondAndGoneAtItsExpiry) {
  EXPECT_EQ(written(expiring(put("s", "k"), now() + 100ms)).expires_at, now() + 100ms);
  EXPECT_EQ(get("s", "k")->expires_at, now() + 100ms);
  advance(99ms);
  EXPECT_TRUE(exists("s", "k"));
  advance(1ms);
  EXPECT_FALSE(exists("s", "k"));
}

TEST_P(ExpiryTest, NoReadShowsAnExpiredRecord) {
  commit(expiring(put("s", "a"), now() + 1ms), put("s", "b"), expiring(put("s", "c"), now() + 1ms));
  advance(1ms);
  EXPECT_FALSE(exists("s", "a"));
  EXPECT_THAT(keys({.space = "s", .after = {}, .prefix = {}}), ElementsAre("b"));
  EXPECT_EQ(usage("s"), (Usage{1, 5, 1}));
}

TEST_P(ExpiryTest, APageIsNotCutShortByExpiredRecords) {
  for (int i = 0; i < 10; ++i) {
    const std::string key = std::to_string(i);
    commit(expiring(put("s", key), i % 2 == 0 ? std::optional(now() + 1ms) : std::nullopt));
  }
  advance(1ms);
  const auto page =
      ask<RecordPage>(query::ScanRecords{.space = "s", .after = {}, .prefix = {}, .limit = 5});
  EXPECT_EQ(page.items.size(), 5U);
  EXPECT_FALSE(page.more);
}

TEST_P(ExpiryTest, WrittenToExpireInThePastIsNeverSeen) {
  for (const Timestamp at : {now(), now() - 1ms, Timestamp(Millis(0))}) {
    EXPECT_EQ(written(expiring(put("s", "k"), at)).expires_at, at);
    EXPECT_FALSE(exists("s", "k"));
  }
}

TEST_P(ExpiryTest, APutWithoutExpiryLastsAndTakesAnEarlierExpiryAway) {
  commit(expiring(put("s", "k"), now() + 1s));
  commit(put("s", "k"));
  advance(24h);
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(ExpiryTest, APutMovesTheExpiry) {
  commit(expiring(put("s", "k"), now() + 1s));
  commit(expiring(put("s", "k"), now() + 3s));
  advance(2s);
  EXPECT_TRUE(exists("s", "k"));
  advance(1s);
  EXPECT_FALSE(exists("s", "k"));
}

TEST_P(ExpiryTest, KeepingMeansTheLiveRecordsOwn) {
  const Timestamp first = now() + 1s;
  commit(expiring(put("s", "k"), first));
  EXPECT_EQ(written(expiringIfNew(put("s", "k", "new"), now() + 9s)).expires_at, first);
  EXPECT_EQ(get("s", "k")->expires_at, first);
  EXPECT_EQ(value("s", "k"), "new");
}

TEST_P(ExpiryTest, KeepingKeepsNeverToo) {
  commit(put("s", "k"));
  EXPECT_EQ(written(expiringIfNew(put("s", "k"), now() + 9s)).expires_at, std::nullopt);
  advance(10s);
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(ExpiryTest, KeepingNothingTakesTheGivenExpiry) {
  EXPECT_EQ(written(expiringIfNew(put("s", "k"), now() + 9s)).expires_at, now() + 9s);
}

TEST_P(ExpiryTest, AnExpiredRecordHasNothingToKeep) {
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(written(expiringIfNew(put("s", "k"), now() + 9s)).expires_at, now() + 9s);
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(ExpiryTest, AddKeepsTheExpiryUnlessTold) {
  const Timestamp first = now() + 1s;
  EXPECT_EQ(added(expiringIfNew(add("s", "n", 1), first)).expires_at, first);
  EXPECT_EQ(added(add("s", "n", 1)).expires_at, first);
  EXPECT_EQ(added(expiring(add("s", "n", 1), now() + 5s)).expires_at, now() + 5s);
  EXPECT_EQ(added(expiring(add("s", "n", 1), std::nullopt)).expires_at, std::nullopt);
}

TEST_P(ExpiryTest, AddToAnExpiredCounterBeginsAtZero) {
  commit(expiring(put("s", "n", "41"), now() + 1s));
  advance(1s);
  const Added again = added(add("s", "n", 1));
  EXPECT_EQ(again.value, 1);
  EXPECT_EQ(again.expires_at, std::nullopt);
}

TEST_P(ExpiryTest, AddToAnExpiredTextIsNoError) {
  commit(expiring(put("s", "n", "text"), now() + 1s));
  advance(1s);
  EXPECT_EQ(added(add("s", "n", 2)).value, 2);
}

TEST_P(ExpiryTest, TouchMovesTheExpiryBothWays) {
  commit(expiring(put("s", "k"), now() + 10s));
  commit(touch("s", "k", now() + 20s));
  advance(15s);
  EXPECT_TRUE(exists("s", "k"));
  commit(touch("s", "k", now() + 1ms));
  advance(1ms);
  EXPECT_FALSE(exists("s", "k"));
}

TEST_P(ExpiryTest, TouchDoesNotWakeTheDead) {
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(refused(touch("s", "k", now() + 1h)), "not_found operation=0");
}

TEST_P(ExpiryTest, TouchingIntoThePastEndsTheRecord) {
  commit(put("s", "k"));
  commit(touch("s", "k", now()));
  EXPECT_FALSE(exists("s", "k"));
  EXPECT_EQ(usage("s"), (Usage{0, 0, 2}));
}

TEST_P(ExpiryTest, ErasingAnExpiredRecordRemovesNothing) {
  commit(expiring(put("s", "k"), now() + 1s));
  advance(1s);
  EXPECT_EQ(removed(erase("s", "k")), 0U);
}

TEST_P(ExpiryTest, ErasingASpaceCountsOnlyWhatWasThere) {
  commit(expiring(put("s", "a"), now() + 1s), put("s", "b"));
  advance(1s);
  EXPECT_EQ(removed(eraseSpace("s")), 1U);
}

// ---- sweep

TEST_P(ExpiryTest, SweepRemovesWhatExpiredAndTellsHowMany) {
  commit(expiring(put("s", "a"), now() + 1ms), expiring(put("s", "b"), now() + 2 * kSweptBy),
         put("s", "c"), expiring(put("t", "d"), now() + 1ms));
  EXPECT_EQ(sweepAll(), 0U);
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 2U);
  EXPECT_EQ(sweepAll(), 0U);
  advance(2 * kSweptBy);
  EXPECT_EQ(sweepAll(), 1U);
  EXPECT_TRUE(exists("s", "c"));
}

TEST_P(ExpiryTest, SweepNeverTakesWhatIsStillThere) {
  for (int i = 1; i <= 20; ++i) {
    commit(expiring(put("s", std::to_string(i)), now() + Millis(i)));
  }
  for (std::uint64_t left = 20; left > 0; --left) {
    sweepAll();
    EXPECT_EQ(usage("s").records, left);
    advance(1ms);
  }
}

TEST_P(ExpiryTest, SweepReachesEveryPartition) {
  Client other = clientOf(Partition("session", {"cart", "bob"}));
  commit(expiring(put("s", "a"), now() + 1ms));
  other.commit(expiring(put("s", "a"), now() + 1ms));
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 2U);
}

TEST_P(ExpiryTest, SweepChangesNothingThatCanBeRead) {
  const Timestamp start = now();
  for (int i = 0; i < 20; ++i) {
    commit(expiring(put("s", std::to_string(i)), start + i * kSweptBy),
           append("l", std::to_string(i)));
  }
  commit(acquire("lease", "me", 5ms), push("q", "i"));
  advance(10 * kSweptBy);
  const std::string before = dump();
  EXPECT_GE(sweepAll(), 10U);
  EXPECT_EQ(dump(), before);
}

TEST_P(ExpiryTest, ASweepWithoutTimeStillGetsSomewhere) {
  for (int i = 0; i < 300; ++i) commit(expiring(put("s", std::to_string(i)), now() + 1ms));
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(Millis(0)), 300U);
}

TEST_P(ExpiryTest, ManyExpiredRecordsAreSweptInTheEnd) {
  for (int batch_no = 0; batch_no < 4; ++batch_no) {
    Batch batch;
    for (int i = 0; i < 1500; ++i) {
      batch.operations.emplace_back(
          expiring(put("s", std::to_string(batch_no * 1500 + i)), now() + 1ms));
    }
    applied(std::move(batch));
  }
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 6000U);
}

TEST_P(ExpiryTest, SweepGoesByTheExpiryThatTouchOrPutGaveLast) {
  commit(expiring(put("s", "later"), now() + 1ms), expiring(put("s", "kept"), now() + 1ms),
         expiring(put("s", "put"), now() + 1ms), expiring(put("s", "sooner"), now() + 1000h));
  commit(touch("s", "later", now() + 3 * kSweptBy), touch("s", "kept", std::nullopt),
         put("s", "put"), touch("s", "sooner", now() + 1ms));
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 1U);
  EXPECT_TRUE(exists("s", "later"));
  advance(3 * kSweptBy);
  EXPECT_EQ(sweepAll(), 1U);
  EXPECT_TRUE(exists("s", "kept"));
  EXPECT_TRUE(exists("s", "put"));
}

TEST_P(ExpiryTest, ARecordWrittenAgainAfterItsExpiryIsNotSwept) {
  commit(expiring(put("s", "k", "old"), now() + 1ms));
  advance(1ms + kSweptBy);
  commit(put("s", "k", "new"));
  EXPECT_EQ(sweepAll(), 0U);
  EXPECT_EQ(value("s", "k"), "new");
}

TEST_P(ExpiryTest, SweepLeavesExpiredLeases) {
  commit(acquire("lease", "me", 1ms));
  advance(1ms + kSweptBy);
  sweepAll();
  ASSERT_TRUE(lease("lease"));
  EXPECT_EQ(lease("lease")->holder, "me");
}

TEST_P(ExpiryTest, ExpiryIsTheSameAfterReopening) {
  commit(expiring(put("s", "k"), now() + 100ms));
  if (!reopen()) return;
  advance(99ms);
  EXPECT_TRUE(exists("s", "k"));
  advance(1ms);
  EXPECT_FALSE(exists("s", "k"));
}

TEST_P(ExpiryTest, TheStoreGoesByItsClock) {
  EXPECT_EQ(store().now(), now());
  advance(1234ms);
  EXPECT_EQ(store().now(), now());
}

}  // namespace
}  // namespace nimbus::store::conformance
