// Partitions: nothing crosses from one to another, and dropping one forgets everything in it.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

void fill(Client& client, Timestamp now) {
  client.commit(put("s", "k"), put("s", "k2"), append("l", "e", {{"i", "t"}}),
                acquire("owner", "me", 10s), push("q", "a"), push("q", "b"),
                schedule("q", "c", now + 1s), take("limit", 1h, 1));
  client.commit(park("q", "b"));
}

TEST_P(PartitionTest, TheSameNamesMeanOtherThingsElsewhere) {
  Client other = clientOf(Partition("session", {"cart", "bob"}));
  fill(*this, now());
  EXPECT_FALSE(other.exists("s", "k"));
  EXPECT_EQ(other.usage("s"), Usage{});
  EXPECT_EQ(other.logInfo("l"), LogInfo{});
  EXPECT_FALSE(other.lease("owner"));
  EXPECT_EQ(other.queueInfo("q"), QueueInfo{});
  fill(other, now());
  EXPECT_EQ(other.dump(), dump());
  commit(eraseSpace("s"), dropLog("l"), complete("q", "a"));
  EXPECT_TRUE(other.exists("s", "k"));
  EXPECT_TRUE(other.entry("l", "e"));
  EXPECT_TRUE(other.item("q", "a"));
}

TEST_P(PartitionTest, DroppedIsAsIfItHadNeverBeen) {
  fill(*this, now());
  for (int i = 0; i < 5; ++i) commit(put("s", "k"));
  commit(erase("s", "k"), touch("s", "k2", now() + 1s));
  EXPECT_EQ(text(commit(op::DropPartition{}).results.at(0)), "done");
  EXPECT_EQ(usage("s"), Usage{});
  EXPECT_EQ(logInfo("l"), LogInfo{});
  EXPECT_THAT(under("l", "i", "t"), IsEmpty());
  EXPECT_FALSE(lease("owner"));
  EXPECT_EQ(queueInfo("q"), QueueInfo{});
  EXPECT_FALSE(item("q", "a"));

  // Counters are forgotten too.
  EXPECT_EQ(written(put("s", "k")).version, 1U);
  EXPECT_EQ(appended(append("l", "e")).seq, 1U);
  EXPECT_EQ(granted(acquire("owner", "me")).token.epoch, 1U);
  EXPECT_EQ(queued(push("q", "a")).position, 1U);
  EXPECT_EQ(taken(take("limit", 1h, 1)).remaining, 0U);
}

TEST_P(PartitionTest, DroppedStaysDroppedAfterReopening) {
  fill(*this, now());
  commit(op::DropPartition{});
  const std::string empty = dump();
  if (!reopen()) return;
  EXPECT_EQ(dump(), empty);
  EXPECT_EQ(written(put("s", "k")).version, 1U);
}

TEST_P(PartitionTest, DroppingWhatNeverWasIsNoError) {
  commit(op::DropPartition{});
  commit(op::DropPartition{});
}

TEST_P(PartitionTest, NeighboursWithSimilarNamesAreLeftAlone) {
  const Partition dropped("session", {"cart", "a"});
  const std::vector<Partition> neighbours = {
      Partition("session", {"cart"}),          Partition("session", {"cart", ""}),
      Partition("session", {"cart", "a", ""}), Partition("session", {"cart", "a", "b"}),
      Partition("session", {"cart", "ab"}),    Partition("session", {"cart", "A"}),
      Partition("session", {"cart:a"}),        Partition("session", {"car", "ta"}),
      Partition("session", {"cart", "a "}),    Partition("session", {"cart", "a*"}),
      Partition("session", {"cart", "_"}),     Partition("session", {"cart", "%"}),
      Partition("sessions", {"cart", "a"}),    Partition("session", {"cart", "a%"}),
      Partition("session", {"cart%3Aa"}),      Partition("session", {"cart", "?"}),
      Partition("session", {"cart", "a\xff"}), Partition("session", {"cart", "`"}),
      Partition("flow", {"cart", "a"}),        Partition("session", {})};
  std::vector<std::string> before;
  for (const Partition& partition : neighbours) {
    Client client = clientOf(partition);
    fill(client, now());
    before.push_back(client.dump());
  }
  Client client = clientOf(dropped);
  fill(client, now());
  client.commit(op::DropPartition{});
  for (std::size_t i = 0; i < neighbours.size(); ++i) {
    Client neighbour = clientOf(neighbours[i]);
    EXPECT_EQ(neighbour.usage("s").records, 2U) << neighbours[i].name();
    EXPECT_EQ(neighbour.logInfo("l").entries, 1U) << neighbours[i].name();
    EXPECT_THAT(neighbour.under("l", "i", "t"), ElementsAre("t#1")) << neighbours[i].name();
    EXPECT_EQ(neighbour.queueInfo("q"), (QueueInfo{1, 1, 1})) << neighbours[i].name();
    EXPECT_TRUE(neighbour.lease("owner")) << neighbours[i].name();
    EXPECT_EQ(neighbour.error(take("limit", 1h, 1)).code(), Code::RateLimited);
  }
}

TEST_P(PartitionTest, DropHeedsConditionsAndFences) {
  fill(*this, now());
  const Token token = lease("owner")->token;
  EXPECT_EQ(refused(require::RecordVersion{"s", "k", 9}, op::DropPartition{}),
            "version_conflict condition=0 current_version=1");
  EXPECT_EQ(refusedWith(Fence{"owner", {9, 9}}, op::DropPartition{}), "fenced");
  commitWith(Fence{"owner", token}, op::DropPartition{});
  EXPECT_EQ(refusedWith(Fence{"owner", token}, put("s", "k")), "fenced");
}

TEST_P(PartitionTest, ADropLeavesDirectoriesAlone) {
  commit(put("s", "k"), list("dir", "key"));
  commit(op::DropPartition{});
  EXPECT_THAT(listed("dir"), ElementsAre("key=value"));
}

TEST_P(PartitionTest, DroppedInAPipelineIsEmptyForTheNext) {
  PendingCommit first = begin(batch(put("s", "k"), append("l", "e")));
  PendingCommit drop = begin(batch(op::DropPartition{}));
  PendingCommit last = begin(batch(expecting(put("s", "k"), 0), append("l", "e")));
  EXPECT_TRUE(wait(std::move(first)));
  EXPECT_TRUE(wait(std::move(drop)));
  const auto result = wait(std::move(last));
  ASSERT_TRUE(result);
  EXPECT_EQ(result->get<RecordWritten>(0).version, 1U);
  EXPECT_EQ(result->get<Appended>(1).seq, 1U);
}

TEST_P(PartitionTest, ExpiredRecordsOfADroppedPartitionAreNotSwept) {
  commit(expiring(put("s", "k"), now() + 1ms));
  commit(op::DropPartition{});
  advance(1ms + kSweptBy);
  EXPECT_EQ(sweepAll(), 0U);
}

}  // namespace
}  // namespace nimbus::store::conformance
