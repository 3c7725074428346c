// Leases and the fences they give.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(LeaseTest, AFreeLeaseIsGranted) {
  const LeaseGranted granted = this->granted(acquire("owner", "node-1", 10s, 42));
  EXPECT_EQ(granted.token, (Token{1, 42}));
  EXPECT_EQ(granted.expires_at, now() + 10s);
  EXPECT_EQ(lease("owner"), (Lease{"node-1", {1, 42}, now() + 10s}));
}

TEST_P(LeaseTest, WhatWasNeverGrantedIsAbsent) {
  EXPECT_FALSE(lease("owner"));
}

TEST_P(LeaseTest, WithoutATtlItLastsUntilReleased) {
  EXPECT_EQ(granted(acquire("owner", "node-1")).expires_at, std::nullopt);
  advance(24h * 365);
  EXPECT_EQ(refused(acquire("owner", "node-2")), "conflict holder='node-1' operation=0");
}

TEST_P(LeaseTest, AHeldLeaseIsRefusedEvenToItsHolder) {
  commit(acquire("owner", "node-1", 10s, 42));
  EXPECT_EQ(refused(acquire("owner", "node-2", 10s)), "conflict holder='node-1' operation=0");
  EXPECT_EQ(refused(acquire("owner", "node-1", 10s, 42)), "conflict holder='node-1' operation=0");
}

TEST_P(LeaseTest, ExpiresAtTheVeryMillisecond) {
  commit(acquire("owner", "node-1", 100ms));
  advance(99ms);
  EXPECT_EQ(refused(acquire("owner", "node-2")), "conflict holder='node-1' operation=0");
  advance(1ms);
  EXPECT_EQ(granted(acquire("owner", "node-2")).token.epoch, 2U);
  EXPECT_EQ(lease("owner")->holder, "node-2");
}

TEST_P(LeaseTest, AnExpiredLeaseStillTellsWhoHeldItLast) {
  commit(acquire("owner", "node-1", 100ms, 42));
  const Timestamp expiry = now() + 100ms;
  advance(1h);
  EXPECT_EQ(lease("owner"), (Lease{"node-1", {1, 42}, expiry}));
}

TEST_P(LeaseTest, TakeOverNeedsTheCurrentToken) {
  const Token token = granted(acquire("owner", "node-1", 10s, 1)).token;
  const Token other{token.epoch, token.nonce + 1};
  const Token older{token.epoch - 1, token.nonce};
  EXPECT_EQ(refused(takeOver(acquire("owner", "node-2", 10s, 2), other)),
            "conflict holder='node-1' operation=0");
  EXPECT_EQ(refused(takeOver(acquire("owner", "node-2", 10s, 2), older)),
            "conflict holder='node-1' operation=0");
  const LeaseGranted taken = granted(takeOver(acquire("owner", "node-2", 10s, 2), token));
  EXPECT_EQ(taken.token, (Token{2, 2}));
  EXPECT_EQ(lease("owner")->holder, "node-2");
}

TEST_P(LeaseTest, TakeOverOfAFreeOrExpiredLeaseIsAnAcquisition) {
  EXPECT_EQ(granted(takeOver(acquire("owner", "node-1", 1s), Token{9, 9})).token.epoch, 1U);
  advance(1s);
  EXPECT_EQ(granted(takeOver(acquire("owner", "node-2", 1s), Token{9, 9})).token.epoch, 2U);
}

TEST_P(LeaseTest, TheTokenBeforeATakeOverIsWorthNothing) {
  const Token first = granted(acquire("owner", "node-1", 10s)).token;
  commit(takeOver(acquire("owner", "node-2", 10s), first));
  EXPECT_EQ(refused(renew("owner", first, 10s)), "fenced operation=0");
  EXPECT_EQ(refused(release("owner", first)), "fenced operation=0");
  EXPECT_EQ(refused(takeOver(acquire("owner", "node-1", 10s), first)),
            "conflict holder='node-2' operation=0");
}

TEST_P(LeaseTest, RenewMovesTheExpiryAndKeepsTheToken) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  advance(9s);
  const LeaseGranted renewed = granted(renew("owner", token, 10s));
  EXPECT_EQ(renewed.token, token);
  EXPECT_EQ(renewed.expires_at, now() + 10s);
  EXPECT_EQ(lease("owner"), (Lease{"node-1", token, now() + 10s}));
}

TEST_P(LeaseTest, RenewCanShortenAndCanMakeItLast) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  EXPECT_EQ(granted(renew("owner", token, 1s)).expires_at, now() + 1s);
  EXPECT_EQ(granted(renew("owner", token)).expires_at, std::nullopt);
  advance(1h);
  EXPECT_EQ(refused(acquire("owner", "node-2")), "conflict holder='node-1' operation=0");
}

TEST_P(LeaseTest, RenewIsFencedFromTheExpiryOn) {
  const Token token = granted(acquire("owner", "node-1", 100ms)).token;
  advance(99ms);
  commit(renew("owner", token, 1ms));
  advance(1ms);
  EXPECT_EQ(refused(renew("owner", token, 10s)), "fenced operation=0");
}

TEST_P(LeaseTest, RenewNeedsTheLease) {
  EXPECT_EQ(refused(renew("owner", Token{1, 7}, 10s)), "fenced operation=0");
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  EXPECT_EQ(refused(renew("owner", Token{token.epoch, token.nonce + 1}, 10s)),
            "fenced operation=0");
  EXPECT_EQ(refused(renew("owner", Token{token.epoch + 1, token.nonce}, 10s)),
            "fenced operation=0");
}

TEST_P(LeaseTest, ReleaseFreesIt) {
  const Token token = granted(acquire("owner", "node-1")).token;
  EXPECT_EQ(text(commit(release("owner", token)).results.at(0)), "done");
  EXPECT_FALSE(lease("owner"));
  EXPECT_EQ(refused(release("owner", token)), "fenced operation=0");
  EXPECT_EQ(refused(renew("owner", token)), "fenced operation=0");
  commit(acquire("owner", "node-2"));
}

TEST_P(LeaseTest, ReleaseNeedsTheCurrentToken) {
  EXPECT_EQ(refused(release("owner", Token{1, 7})), "fenced operation=0");
  const Token token = granted(acquire("owner", "node-1")).token;
  EXPECT_EQ(refused(release("owner", Token{token.epoch, 0})), "fenced operation=0");
  EXPECT_EQ(refused(release("owner", Token{0, token.nonce})), "fenced operation=0");
}

TEST_P(LeaseTest, AnExpiredLeaseCanStillBeReleased) {
  const Token token = granted(acquire("owner", "node-1", 1s)).token;
  advance(1s);
  commit(release("owner", token));
  EXPECT_FALSE(lease("owner"));
}

TEST_P(LeaseTest, EveryGrantHasALaterEpoch) {
  std::uint64_t epoch = 0;
  for (int i = 0; i < 6; ++i) {
    const Token token = granted(acquire("owner", "node", 1s)).token;
    EXPECT_GT(token.epoch, epoch);
    epoch = token.epoch;
    if (i % 2 == 0) {
      commit(release("owner", token));
    } else {
      advance(1s);
    }
  }
  if (!reopen()) return;
  EXPECT_GT(granted(acquire("owner", "node", 1s)).token.epoch, epoch);
}

TEST_P(LeaseTest, TheEpochOutlivesReleaseAndTheStore) {
  const Token token = granted(acquire("owner", "node-1")).token;
  commit(release("owner", token));
  if (!reopen()) return;
  EXPECT_GT(granted(acquire("owner", "node-1")).token.epoch, token.epoch);
}

TEST_P(LeaseTest, AHeldLeaseOutlivesTheStore) {
  const Token token = granted(acquire("owner", "node-1", 10s, UINT64_MAX)).token;
  if (!reopen()) return;
  EXPECT_EQ(lease("owner"), (Lease{"node-1", token, now() + 10s}));
  commit(renew("owner", token, 10s));
}

TEST_P(LeaseTest, NoncesAreAllOfSixtyFourBits) {
  for (const std::uint64_t nonce : {std::uint64_t{0}, std::uint64_t{1} << 63U, UINT64_MAX}) {
    const std::string name = "owner" + std::to_string(nonce);
    const Token token = granted(acquire(name, "node-1", 10s, nonce)).token;
    EXPECT_EQ(token.nonce, nonce);
    EXPECT_EQ(lease(name)->token, token);
    commitWith(Fence{name, token}, put("s", "k"));
    commit(renew(name, token, 10s));
  }
}

TEST_P(LeaseTest, ATtlOfNothingIsExpiredAtOnce) {
  commit(acquire("owner", "node-1", 0ms));
  EXPECT_EQ(granted(acquire("owner", "node-2", 0ms)).token.epoch, 2U);
}

TEST_P(LeaseTest, LeasesStandOnTheirOwn) {
  commit(acquire("a", "node-1"), acquire("b", "node-2"));
  EXPECT_EQ(lease("a")->holder, "node-1");
  EXPECT_EQ(lease("b")->holder, "node-2");
  EXPECT_EQ(lease("b")->token.epoch, 1U);
}

TEST_P(LeaseTest, OneBatchMayGrantAndWrite) {
  const Applied applied =
      commit(require::RecordVersion{"s", "k", 0}, acquire("owner", "node-1", 5s), put("s", "k"));
  EXPECT_EQ(applied.get<LeaseGranted>(0).token.epoch, 1U);
  EXPECT_TRUE(exists("s", "k"));
}

// ---- fences

TEST_P(LeaseTest, AFenceLetsItsHolderWrite) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  commitWith(Fence{"owner", token}, put("s", "k"), append("l", "e"));
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(LeaseTest, AFenceRefusesEveryKindOfOperation) {
  const Token old = granted(acquire("owner", "node-1", 10s)).token;
  const Token token = granted(takeOver(acquire("owner", "node-2", 10s), old)).token;
  commit(put("s", "k"), append("l", "e"), push("q", "line"), push("q", "done"),
         schedule("q", "later", now() + 1s), push("q", "bad"));
  commit(park("q", "bad"));
  const std::vector<Operation> operations = {put("s", "x"),
                                             erase("s", "k"),
                                             eraseSpace("s"),
                                             add("s", "n", 1),
                                             touch("s", "k", now() + 1s),
                                             append("l", "e2"),
                                             amend("l", "e"),
                                             remove("l", "e"),
                                             removeRange("l", 1, 1),
                                             removeTerm("l", "i", "t"),
                                             dropLog("l"),
                                             acquire("other", "me"),
                                             renew("owner", token),
                                             release("owner", token),
                                             push("q", "new"),
                                             join("q", "later"),
                                             defer("q", "line"),
                                             complete("q", "done"),
                                             park("q", "line"),
                                             revive("q", "bad"),
                                             take("limit", 1s, 5),
                                             op::DropPartition{}};
  EXPECT_EQ(operations.size(), std::variant_size_v<Operation>);
  for (const Operation& operation : operations) {
    EXPECT_EQ(refusedWith(Fence{"owner", old}, operation), "fenced") << operation.index();
  }
  for (const Operation& operation : operations) {
    if (std::holds_alternative<op::Release>(operation)) continue;  // ends the fence for the rest
    const auto result = tryCommit(batch(operation), Fence{"owner", token});
    if (!result) EXPECT_NE(result.error().code(), Code::Fenced) << operation.index();
  }
}

TEST_P(LeaseTest, AFenceNeedsTheWholeToken) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  EXPECT_EQ(refusedWith(Fence{"owner", {token.epoch, token.nonce + 1}}, put("s", "k")), "fenced");
  EXPECT_EQ(refusedWith(Fence{"owner", {token.epoch + 1, token.nonce}}, put("s", "k")), "fenced");
  EXPECT_EQ(refusedWith(Fence{"other", token}, put("s", "k")), "fenced");
}

TEST_P(LeaseTest, AReleasedLeaseFencesEverybody) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  commit(release("owner", token));
  EXPECT_EQ(refusedWith(Fence{"owner", token}, put("s", "k")), "fenced");
}

// The fence asks whose token it is, not how late it is: while nobody else was granted the lease,
// nobody else has written.
TEST_P(LeaseTest, AnExpiredLeaseFencesOnlyOnceSomebodyElseHasIt) {
  const Token token = granted(acquire("owner", "node-1", 1s)).token;
  advance(1h);
  commitWith(Fence{"owner", token}, put("s", "k"));
  commit(acquire("owner", "node-2", 1s));
  EXPECT_EQ(refusedWith(Fence{"owner", token}, put("s", "k")), "fenced");
}

TEST_P(LeaseTest, TheFenceIsLookedAtBeforeAllElse) {
  commit(put("s", "k"));
  EXPECT_EQ(refusedWith(Fence{"owner", {1, 1}}, require::RecordVersion{"s", "k", 9},
                        expecting(put("s", "x"), 9)),
            "fenced");
}

TEST_P(LeaseTest, AMalformedBatchIsRefusedBeforeTheFence) {
  EXPECT_EQ(refusedWith(Fence{"owner", {1, 1}}, put("s", "")), "invalid_argument operation=0");
}

TEST_P(LeaseTest, TheFenceIsTheOneBeforeTheBatch) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  commitWith(Fence{"owner", token}, release("owner", token), put("s", "k"));
  EXPECT_TRUE(exists("s", "k"));
  EXPECT_FALSE(lease("owner"));
}

TEST_P(LeaseTest, AFenceHoldsInItsOwnPartitionOnly) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  Client other = clientOf(Partition("session", {"cart", "bob"}));
  EXPECT_EQ(other.refusedWith(Fence{"owner", token}, put("s", "k")), "fenced");
}

TEST_P(LeaseTest, AFencedQuestionIsAnswered) {
  const Token token = granted(acquire("owner", "node-1", 10s)).token;
  EXPECT_TRUE(commitWith(Fence{"owner", token}).results.empty());
  EXPECT_EQ(refusedWith(Fence{"owner", {token.epoch, 0}}), "fenced");
}

}  // namespace
}  // namespace nimbus::store::conformance
