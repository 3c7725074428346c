// Queues: the line, schedules, retries and parked items.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(QueueTest, APushedItemWaitsInTheLine) {
  const Queued queued = this->queued(push("q", "a", "body"));
  EXPECT_EQ(queued.position, 1U);
  EXPECT_FALSE(queued.repeated);
  const auto item = this->item("q", "a");
  ASSERT_TRUE(item);
  EXPECT_EQ(item->id, "a");
  EXPECT_EQ(item->part, QueuePart::Line);
  EXPECT_EQ(item->position, 1U);
  EXPECT_EQ(item->payload, "body");
  EXPECT_EQ(item->not_before, Timestamp());
  EXPECT_EQ(item->attempts, 0U);
}

TEST_P(QueueTest, AQueueThatNeverWasIsEmpty) {
  EXPECT_EQ(queueInfo("q"), QueueInfo{});
  EXPECT_FALSE(item("q", "a"));
  EXPECT_THAT(ids("q", QueuePart::Line), IsEmpty());
}

TEST_P(QueueTest, FirstInIsFirst) {
  for (const char* id : {"c", "a", "b"}) commit(push("q", id));
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("c", "a", "b"));
}

TEST_P(QueueTest, PushesOfOneBatchTakeTheirPlacesInTheOrderGiven) {
  const Applied applied = commit(push("q", "z"), push("other", "x"), push("q", "a"));
  EXPECT_LT(applied.get<Queued>(0).position, applied.get<Queued>(2).position);
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("z", "a"));
  EXPECT_THAT(ids("other", QueuePart::Line), ElementsAre("x"));
}

TEST_P(QueueTest, PayloadsAndReasonsAreBytes) {
  const std::string bytes("\0\xff'\n", 4);
  commit(push("q", "a", bytes), push("q", "empty", ""));
  EXPECT_EQ(item("q", "a")->payload, bytes);
  EXPECT_EQ(item("q", "empty")->payload, "");
  commit(park("q", "a", bytes));
  EXPECT_EQ(item("q", "a")->reason, bytes);
}

TEST_P(QueueTest, AMebibyteComesBackAsItWas) {
  const std::string payload(1U << 20U, '\x01');
  commit(push("q", "a", payload));
  EXPECT_TRUE(item("q", "a")->payload == payload);
}

// ---- repetition

TEST_P(QueueTest, ARepeatedPushWritesNothing) {
  commit(push("q", "a", "first"), push("q", "b"));
  const std::string before = dump();
  const Queued again = queued(push("q", "a", "second"));
  EXPECT_TRUE(again.repeated);
  EXPECT_EQ(again.position, 1U);
  EXPECT_EQ(dump(), before);
}

TEST_P(QueueTest, AnIdIsARepetitionInWhicheverPartItIs) {
  commit(push("q", "line"), schedule("q", "later", now() + 1s), push("q", "bad"));
  commit(defer("q", "line"), park("q", "bad"));
  const std::string before = dump();
  for (const char* id : {"line", "later", "bad"}) {
    EXPECT_TRUE(queued(push("q", id)).repeated) << id;
    EXPECT_TRUE(queued(schedule("q", id, now() + 9s)).repeated) << id;
  }
  EXPECT_EQ(dump(), before);
}

TEST_P(QueueTest, ACompletedIdIsNew) {
  commit(push("q", "a"));
  commit(complete("q", "a"));
  EXPECT_FALSE(queued(push("q", "a")).repeated);
}

TEST_P(QueueTest, PlacesOnlyGrow) {
  Seq last = 0;
  for (int i = 0; i < 10; ++i) {
    const Seq position = queued(push("q", "a")).position;
    EXPECT_GT(position, last);
    last = position;
    commit(complete("q", "a"));
  }
  if (!reopen()) return;
  EXPECT_GT(queued(push("q", "a")).position, last);
}

// ---- schedule

TEST_P(QueueTest, AScheduledItemIsNotInTheLine) {
  commit(schedule("q", "a", now() + 1s));
  EXPECT_EQ(queueInfo("q"), (QueueInfo{0, 1, 0}));
  EXPECT_THAT(ids("q", QueuePart::Line), IsEmpty());
  EXPECT_THAT(ids("q", QueuePart::Scheduled), ElementsAre("a"));
  EXPECT_EQ(item("q", "a")->part, QueuePart::Scheduled);
  EXPECT_EQ(item("q", "a")->due_at, now() + 1s);
}

TEST_P(QueueTest, AScheduledItemStaysWhateverTheClockSays) {
  commit(schedule("q", "late", now() + 1s), schedule("q", "past", now() - 1s));
  advance(1h);
  EXPECT_EQ(queueInfo("q"), (QueueInfo{0, 2, 0}));
  EXPECT_THAT(ids("q", QueuePart::Line), IsEmpty());
}

TEST_P(QueueTest, AScheduledItemMayJoinBeforeItIsDue) {
  commit(schedule("q", "a", now() + 1h));
  commit(join("q", "a"));
  EXPECT_EQ(item("q", "a")->part, QueuePart::Line);
}

TEST_P(QueueTest, ScheduledItemsComeByDueTimeAndThenInTheOrderOfPushing) {
  commit(schedule("q", "late", now() + 3s), schedule("q", "z", now() + 1s),
         schedule("q", "a", now() + 1s), schedule("q", "early", now() - 5s));
  EXPECT_THAT(ids("q", QueuePart::Scheduled), ElementsAre("early", "z", "a", "late"));
}

TEST_P(QueueTest, JoinTakesTheNextPlaceInTheLine) {
  commit(schedule("q", "s", now() + 1s), push("q", "a"), push("q", "b"));
  const Queued joined = queued(join("q", "s"));
  EXPECT_FALSE(joined.repeated);
  EXPECT_GT(joined.position, item("q", "b")->position);
  EXPECT_EQ(item("q", "s")->position, joined.position);
  commit(push("q", "c"));
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("a", "b", "s", "c"));
  EXPECT_EQ(queueInfo("q"), (QueueInfo{4, 0, 0}));
  EXPECT_EQ(item("q", "s")->attempts, 0U);
  EXPECT_EQ(item("q", "s")->not_before, Timestamp());
}

TEST_P(QueueTest, JoinsOfOneBatchTakeTheirPlacesInTheOrderGiven) {
  commit(schedule("q", "x", now() + 1s), schedule("q", "y", now() + 2s));
  commit(join("q", "y"), push("q", "m"), join("q", "x"));
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("y", "m", "x"));
}

TEST_P(QueueTest, JoinNeedsAScheduledItem) {
  EXPECT_EQ(refused(join("q", "a")), "not_found operation=0");
  commit(push("q", "line"), push("q", "bad"));
  commit(park("q", "bad"));
  EXPECT_EQ(refused(join("q", "line")), "not_found operation=0");
  EXPECT_EQ(refused(join("q", "bad")), "not_found operation=0");
}

// ---- defer

TEST_P(QueueTest, DeferCountsAnAttemptAndKeepsThePlace) {
  commit(push("q", "a"), push("q", "b"));
  EXPECT_EQ(text(commit(defer("q", "a", now() + 5s)).results.at(0)), "done");
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("a", "b"));
  EXPECT_EQ(item("q", "a")->attempts, 1U);
  EXPECT_EQ(item("q", "a")->not_before, now() + 5s);
  EXPECT_EQ(item("q", "a")->position, 1U);
  commit(defer("q", "a", now() + 9s));
  EXPECT_EQ(item("q", "a")->attempts, 2U);
  EXPECT_EQ(item("q", "a")->not_before, now() + 9s);
  EXPECT_EQ(item("q", "b")->attempts, 0U);
  EXPECT_EQ(queueInfo("q"), (QueueInfo{2, 0, 0}));
}

TEST_P(QueueTest, DeferNeedsAnItemInTheLine) {
  EXPECT_EQ(refused(defer("q", "a")), "not_found operation=0");
  commit(schedule("q", "later", now() + 1s), push("q", "bad"));
  commit(park("q", "bad"));
  EXPECT_EQ(refused(defer("q", "later")), "not_found operation=0");
  EXPECT_EQ(refused(defer("q", "bad")), "not_found operation=0");
}

// ---- complete

TEST_P(QueueTest, CompleteRemovesAnItemWhateverItsPart) {
  commit(push("q", "line"), schedule("q", "later", now() + 1s), push("q", "bad"));
  commit(park("q", "bad"));
  EXPECT_EQ(queueInfo("q"), (QueueInfo{1, 1, 1}));
  for (const char* id : {"line", "later", "bad"}) {
    EXPECT_EQ(removed(complete("q", id)), 1U);
    EXPECT_FALSE(item("q", id));
  }
  EXPECT_EQ(queueInfo("q"), QueueInfo{});
  for (const QueuePart part : {QueuePart::Line, QueuePart::Scheduled, QueuePart::Parked}) {
    EXPECT_THAT(ids("q", part), IsEmpty());
  }
}

TEST_P(QueueTest, CompleteNeedsTheItem) {
  EXPECT_EQ(refused(complete("q", "a")), "not_found operation=0");
  commit(push("q", "a"));
  commit(complete("q", "a"));
  EXPECT_EQ(refused(complete("q", "a")), "not_found operation=0");
}

TEST_P(QueueTest, AnItemInTheMiddleCanBeCompleted) {
  commit(push("q", "a"), push("q", "b"), push("q", "c"));
  commit(complete("q", "b"));
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("a", "c"));
}

// ---- park and revive

TEST_P(QueueTest, AParkedItemLeavesTheLineWithItsReason) {
  commit(push("q", "a"), push("q", "b"));
  commit(defer("q", "a", now() + 1s));
  EXPECT_EQ(text(commit(park("q", "a", "too often")).results.at(0)), "done");
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("b"));
  EXPECT_THAT(ids("q", QueuePart::Parked), ElementsAre("a"));
  const auto parked = item("q", "a");
  EXPECT_EQ(parked->part, QueuePart::Parked);
  EXPECT_EQ(parked->reason, "too often");
  EXPECT_EQ(parked->attempts, 1U);
  EXPECT_EQ(parked->payload, "payload");
  EXPECT_EQ(queueInfo("q"), (QueueInfo{1, 0, 1}));
}

TEST_P(QueueTest, ParkNeedsAnItemInTheLine) {
  EXPECT_EQ(refused(park("q", "a")), "not_found operation=0");
  commit(schedule("q", "later", now() + 1s), push("q", "bad"));
  commit(park("q", "bad"));
  EXPECT_EQ(refused(park("q", "later")), "not_found operation=0");
  EXPECT_EQ(refused(park("q", "bad")), "not_found operation=0");
}

// Nothing is said of another place, so a parked item keeps the one it had in the line.
TEST_P(QueueTest, ParkedItemsStayInTheOrderOfTheLine) {
  for (const char* id : {"a", "b", "c"}) commit(push("q", id));
  commit(park("q", "c"));
  commit(park("q", "a"));
  EXPECT_THAT(ids("q", QueuePart::Parked), ElementsAre("a", "c"));
}

TEST_P(QueueTest, ARevivedItemTakesTheNextPlaceAndItsAttemptsAreForgotten) {
  commit(push("q", "a", "body"), push("q", "b"));
  commit(defer("q", "a", now() + 1h));
  commit(park("q", "a"));
  const Queued revived = queued(revive("q", "a"));
  EXPECT_FALSE(revived.repeated);
  EXPECT_GT(revived.position, item("q", "b")->position);
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("b", "a"));
  const auto item = this->item("q", "a");
  EXPECT_EQ(item->position, revived.position);
  EXPECT_EQ(item->attempts, 0U);
  EXPECT_EQ(item->not_before, Timestamp());
  EXPECT_EQ(item->payload, "body");
  EXPECT_EQ(queueInfo("q"), (QueueInfo{2, 0, 0}));
}

TEST_P(QueueTest, ReviveNeedsAParkedItem) {
  EXPECT_EQ(refused(revive("q", "a")), "not_found operation=0");
  commit(push("q", "line"), schedule("q", "later", now() + 1s));
  EXPECT_EQ(refused(revive("q", "line")), "not_found operation=0");
  EXPECT_EQ(refused(revive("q", "later")), "not_found operation=0");
}

// ---- pages

TEST_P(QueueTest, MoreIsExactAtTheBorderOfAPage) {
  commit(push("q", "a"), push("q", "b"), push("q", "c"), schedule("q", "s", now()));
  query::ScanQueue query{.queue = "q", .part = QueuePart::Line, .after = {}, .limit = 2};
  EXPECT_TRUE(ask<ItemPage>(query).more);
  query.limit = 3;
  EXPECT_FALSE(ask<ItemPage>(query).more);
  query.part = QueuePart::Scheduled;
  query.limit = 1;
  EXPECT_FALSE(ask<ItemPage>(query).more);
  query.part = QueuePart::Parked;
  EXPECT_FALSE(ask<ItemPage>(query).more);
}

TEST_P(QueueTest, PagesCoverEachPartOnce) {
  for (int i = 0; i < 12; ++i) {
    const std::string id = std::to_string(i);
    commit(push("q", "line" + id), schedule("q", "later" + id, now() + Millis(i % 3)),
           push("q", "bad" + id));
    commit(park("q", "bad" + id));
  }
  for (const QueuePart part : {QueuePart::Line, QueuePart::Scheduled, QueuePart::Parked}) {
    const std::vector<std::string> whole = ids("q", part);
    EXPECT_EQ(whole.size(), 12U);
    for (const std::size_t limit : {1U, 5U, 11U, 12U}) {
      std::vector<std::string> paged;
      query::ScanQueue query{.queue = "q", .part = part, .after = {}, .limit = limit};
      for (bool more = true; more && paged.size() < kEnough;) {
        const auto page = ask<ItemPage>(query);
        ASSERT_FALSE(page.items.empty());
        for (const QueueItem& item : page.items) paged.push_back(item.id);
        query.after = {page.items.back().due_at, page.items.back().position};
        more = page.more;
      }
      EXPECT_EQ(paged, whole) << limit;
    }
  }
}

TEST_P(QueueTest, APositionNeedNotBeThereAnyMore) {
  for (const char* id : {"a", "b", "c"}) commit(push("q", id));
  const Seq position = item("q", "b")->position;
  commit(complete("q", "b"));
  const query::ScanQueue query{
      .queue = "q", .part = QueuePart::Line, .after = {{Timestamp(), position}}};
  const auto page = ask<ItemPage>(query);
  ASSERT_EQ(page.items.size(), 1U);
  EXPECT_EQ(page.items[0].id, "c");
}

TEST_P(QueueTest, AScanHasWholeItems) {
  commit(push("q", "a", "body"));
  commit(defer("q", "a", now() + 1s));
  const auto page = ask<ItemPage>(query::ScanQueue{.queue = "q", .after = {}});
  EXPECT_EQ(text(page.items.at(0)), text(*item("q", "a")));
}

// ---- limits

TEST_P(QueueTest, ALimitIsReachedAndNotPassed) {
  const require::QueueWithin within{"q", 2};
  commit(within, push("q", "a"));
  commit(within, push("q", "b"));
  EXPECT_EQ(refused(within, push("q", "c")), "quota_exceeded condition=0 limit=2");
  commit(within, complete("q", "a"));
  commit(within, push("q", "c"));
}

TEST_P(QueueTest, ALimitCountsOnlyTheLineAfterTheBatch) {
  const require::QueueWithin within{"q", 1};
  commit(within, schedule("q", "s1", now()), schedule("q", "s2", now()), push("q", "a"));
  commit(within, push("q", "a"));
  commit(within, defer("q", "a"));
  EXPECT_EQ(refused(within, join("q", "s1")), "quota_exceeded condition=0 limit=1");
  commit(within, park("q", "a"), join("q", "s1"));
  EXPECT_EQ(refused(within, revive("q", "a")), "quota_exceeded condition=0 limit=1");
  commit(within, complete("q", "s1"), revive("q", "a"));
  EXPECT_EQ(refused(within, push("q", "x"), complete("q", "s2")),
            "quota_exceeded condition=0 limit=1");
  commit(within, push("q", "x"), complete("q", "a"));
}

TEST_P(QueueTest, ALineThatIsTooLongAlreadyMayShrinkOrStay) {
  commit(push("q", "a"), push("q", "b"), push("q", "c"));
  const require::QueueWithin within{"q", 1};
  commit(within, defer("q", "a"));
  commit(within, complete("q", "a"));
  EXPECT_EQ(refused(within, push("q", "d")), "quota_exceeded condition=0 limit=1");
}

TEST_P(QueueTest, ALimitOfNothingLetsNothingWait) {
  const require::QueueWithin within{"q", 0};
  EXPECT_EQ(refused(within, push("q", "a")), "quota_exceeded condition=0 limit=0");
  commit(within, schedule("q", "a", now()));
}

TEST_P(QueueTest, WhatIsNotThereCountsForNothingInALimit) {
  commit(push("q", "a"));
  const require::QueueWithin within{"q", 1};
  EXPECT_EQ(refused(within, join("q", "absent")), "not_found operation=0");
  EXPECT_EQ(refused(within, revive("q", "absent")), "not_found operation=0");
}

TEST_P(QueueTest, QueuesCountOnTheirOwn) {
  commit(push("q", "a"), push("r", "a"));
  commit(require::QueueWithin{"q", 1}, push("r", "b"));
  commit(complete("q", "a"));
  EXPECT_EQ(queueInfo("r"), (QueueInfo{2, 0, 0}));
}

TEST_P(QueueTest, OutlivesTheStore) {
  commit(push("q", "a"), push("q", "b"), schedule("q", "s", now() + 1s), push("q", "bad"));
  commit(defer("q", "a", now() + 1s), park("q", "bad"));
  const std::string before = dump();
  if (!reopen()) return;
  EXPECT_EQ(dump(), before);
  EXPECT_TRUE(queued(push("q", "bad")).repeated);
  commit(join("q", "s"));
  EXPECT_THAT(ids("q", QueuePart::Line), ElementsAre("a", "b", "s"));
}

}  // namespace
}  // namespace nimbus::store::conformance
