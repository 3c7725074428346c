// Batches: all or nothing over every primitive, and in which order refusals are found.

#include "suites.h"

#include <utility>

namespace nimbus::store::conformance {
namespace {

TEST_P(BatchTest, EveryPrimitiveCommitsTogether) {
  const Applied applied =
      commit(put("s", "k"), append("l", "e", {{"i", "t"}}), acquire("owner", "me", 5s),
             push("q", "item"), take("limit", 100ms, 3), list("dir", "key"));
  EXPECT_EQ(applied.results.size(), 5U);
  EXPECT_EQ(applied.get<RecordWritten>(0).version, 1U);
  EXPECT_EQ(applied.get<Appended>(1).seq, 1U);
  EXPECT_EQ(applied.get<LeaseGranted>(2).token.epoch, 1U);
  EXPECT_EQ(applied.get<Queued>(3).position, 1U);
  EXPECT_EQ(applied.get<Taken>(4).remaining, 2U);
  EXPECT_TRUE(exists("s", "k"));
  EXPECT_TRUE(entry("l", "e"));
  EXPECT_TRUE(lease("owner"));
  EXPECT_TRUE(item("q", "item"));
  EXPECT_THAT(listed("dir"), ElementsAre("key=value"));
}

TEST_P(BatchTest, TheEmptyBatchIsApplied) {
  EXPECT_TRUE(commit().results.empty());
  EXPECT_TRUE(commit(require::RecordVersion{"s", "k", 0}).results.empty());
}

// Whatever refuses the last operation, none of those before it has happened. That refused() finds
// everything as it was is what these cases are about.
class Refusals {
 public:
  static std::vector<Operation> ofEveryKind(Timestamp now) {
    return {put("s", "k", "new"),   erase("s", "gone"),
            add("s", "n", 1),       touch("s", "t", now + 1s),
            eraseSpace("cleared"),  put("cleared", "x"),
            append("l", "e2"),      amend("l", "e1", {{"i", "moved"}}),
            removeRange("m", 1, 1), removeTerm("m", "i", "t"),
            dropLog("d"),           acquire("free", "me"),
            push("q", "new"),       join("q", "later"),
            defer("q", "line"),     complete("q", "done"),
            park("q", "bad"),       revive("q", "parked"),
            take("limit", 100ms, 3)};
  }
  static void prepare(Client& client, Timestamp now) {
    client.commit(put("s", "k", "old"), put("s", "gone"), put("s", "n", "1"), put("s", "t"),
                  put("cleared", "a"), put("cleared", "x"));
    client.commit(append("l", "e1", {{"i", "t"}}), append("m", "a"), append("m", "b", {{"i", "t"}}),
                  append("d", "a"));
    client.commit(push("q", "line"), push("q", "done"), push("q", "bad"), push("q", "parked"),
                  schedule("q", "later", now));
    client.commit(park("q", "parked"), acquire("held", "other"));
  }
};

TEST_P(BatchTest, AllOrNothingWhateverRefusesTheLast) {
  Refusals::prepare(*this, now());
  commit(put("s", "text", "text"), take("empty", 1h, 1));
  const std::vector<std::pair<Operation, Code>> last = {
      {expecting(put("s", "other"), 4), Code::VersionConflict},
      {expecting(erase("s", "other"), 4), Code::VersionConflict},
      {expecting(add("s", "other", 1), 4), Code::VersionConflict},
      {add("s", "text", 1), Code::InvalidArgument},
      {touch("s", "absent", now()), Code::NotFound},
      {append("l", "e1", {}, "", "another"), Code::Conflict},
      {amend("l", "absent"), Code::NotFound},
      {remove("l", "absent"), Code::NotFound},
      {acquire("held", "me"), Code::Conflict},
      {renew("held", {9, 9}), Code::Fenced},
      {release("held", {9, 9}), Code::Fenced},
      {join("q", "absent"), Code::NotFound},
      {defer("q", "absent"), Code::NotFound},
      {complete("q", "absent"), Code::NotFound},
      {park("q", "absent"), Code::NotFound},
      {revive("q", "absent"), Code::NotFound},
      {take("empty", 1h, 1), Code::RateLimited},
      {take("other", 1h, 1, 2), Code::InvalidArgument}};
  for (const auto& [operation, code] : last) {
    Batch batch;
    batch.operations = Refusals::ofEveryKind(now());
    const auto index = static_cast<std::int64_t>(batch.operations.size());
    // An entry may be changed once in a batch; the conflicting append stands for the amendment.
    std::erase_if(batch.operations, [&](const Operation& o) {
      return std::holds_alternative<op::Append>(operation) && std::holds_alternative<op::Amend>(o);
    });
    const std::int64_t removed = index - static_cast<std::int64_t>(batch.operations.size());
    batch.operations.push_back(operation);
    const Error error = refusal(std::move(batch));
    EXPECT_EQ(codeName(error.code()), codeName(code)) << error.message();
    EXPECT_EQ(error.field("operation", -1), index - removed);
    EXPECT_EQ(error.field("condition", -1), -1);
  }
  Batch batch;
  batch.operations = Refusals::ofEveryKind(now());
  const Applied done = applied(std::move(batch));
  EXPECT_EQ(done.get<Taken>(18).remaining, 2U) << "no refused batch took from the limiter";
}

TEST_P(BatchTest, AllOrNothingWhateverConditionRefuses) {
  Refusals::prepare(*this, now());
  const std::vector<std::pair<Condition, Code>> conditions = {
      {require::RecordVersion{"s", "k", 9}, Code::VersionConflict},
      {require::SpaceWithin{"s", 1, 0}, Code::QuotaExceeded},
      {require::SpaceWithin{"s", 0, 1}, Code::QuotaExceeded},
      {require::LogEndsAt{"l", 9}, Code::Conflict},
      {require::LogUnchanged{"l", 999}, Code::Conflict},
      {require::QueueWithin{"q", 2}, Code::QuotaExceeded}};
  for (const auto& [condition, code] : conditions) {
    Batch batch;
    batch.conditions = {require::RecordVersion{"s", "k", 1}, condition};
    batch.operations = Refusals::ofEveryKind(now());
    batch.operations.emplace_back(put("s", "one more", "than was erased"));
    batch.operations.emplace_back(put("s", "and another"));
    const Error error = refusal(std::move(batch));
    EXPECT_EQ(codeName(error.code()), codeName(code)) << error.message();
    EXPECT_EQ(error.field("condition", -1), 1);
    EXPECT_EQ(error.field("operation", -1), -1);
  }
}

TEST_P(BatchTest, ConditionsComeBeforeOperations) {
  EXPECT_EQ(refused(expecting(put("s", "a"), 9), require::RecordVersion{"s", "b", 3}),
            "version_conflict condition=0 current_version=0");
}

TEST_P(BatchTest, TheFirstOfSeveralConditionsRefuses) {
  commit(put("s", "k"));
  EXPECT_EQ(refused(require::RecordVersion{"s", "k", 1}, require::RecordVersion{"s", "k", 5},
                    require::QueueWithin{"q", 0}, push("q", "i")),
            "version_conflict condition=1 current_version=1");
}

TEST_P(BatchTest, TheFirstOfSeveralOperationsRefuses) {
  EXPECT_EQ(refused(put("s", "a"), complete("q", "absent"), expecting(put("s", "b"), 9)),
            "not_found operation=1");
}

TEST_P(BatchTest, OperationsAreCheckedAgainstThePartitionBeforeTheBatch) {
  commit(put("s", "a"));
  // Both expectations are about versions from before, though a write comes between.
  const Applied applied = commit(expecting(put("s", "a"), 1), expecting(put("s", "b"), 0));
  EXPECT_EQ(applied.get<RecordWritten>(0).version, 2U);
  // An item pushed by the batch is not there for a condition of the batch.
  EXPECT_EQ(refused(push("q", "x"), require::QueueWithin{"q", 0}),
            "quota_exceeded condition=0 limit=0");
}

TEST_P(BatchTest, AMalformedBatchIsRefusedWhole) {
  EXPECT_EQ(refused(put("s", "ok"), put("s", "k"), put("s", "k")), "invalid_argument");
  EXPECT_EQ(refused(put("s", "ok"), put("", "k")), "invalid_argument operation=1");
  EXPECT_EQ(refused(put("s", "ok"), op::DropPartition{}), "invalid_argument");
  EXPECT_EQ(refused(put("s", "ok"), eraseSpace("s")), "invalid_argument operation=1");
  EXPECT_EQ(refused(put("s", "ok"), list("", "key")), "invalid_argument");
}

TEST_P(BatchTest, AMalformedBatchIsRefusedBeforeItsConditions) {
  EXPECT_EQ(refused(require::RecordVersion{"s", "k", 9}, put("s", "")),
            "invalid_argument operation=0");
}

TEST_P(BatchTest, TheLargestBatchIsApplied) {
  Batch batch;
  for (std::size_t i = 0; i < kMaxOperations; ++i) {
    batch.operations.emplace_back(put("s", std::to_string(i), "v"));
  }
  Batch too_large = batch;
  EXPECT_EQ(applied(std::move(batch)).results.size(), kMaxOperations);
  EXPECT_EQ(usage("s").records, kMaxOperations);
  too_large.operations.emplace_back(put("s", "one more"));
  EXPECT_EQ(text(refusal(std::move(too_large))), "invalid_argument");
}

TEST_P(BatchTest, DroppingThePendingCommitDoesNotUndoIt) {
  static_cast<void>(begin(batch(put("s", "k"))));
  commit(put("s", "other"));
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(BatchTest, ResultsAreKnownAndThenDurable) {
  TaskRunner runner;
  PendingCommit pending = begin(batch(put("s", "k")));
  const Result<Applied> applied = runner.run(pending.applied());
  ASSERT_TRUE(applied);
  EXPECT_EQ(applied->get<RecordWritten>(0).version, 1U);
  EXPECT_TRUE(runner.run(pending.durable()));
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(BatchTest, ARefusalIsTheAnswerToBothQuestions) {
  TaskRunner runner;
  PendingCommit pending = begin(batch(expecting(put("s", "k"), 3)));
  const Result<Applied> applied = runner.run(pending.applied());
  const Result<> durable = runner.run(pending.durable());
  ASSERT_FALSE(applied);
  ASSERT_FALSE(durable);
  EXPECT_EQ(text(applied.error()), "version_conflict current_version=0 operation=0");
  EXPECT_EQ(text(durable.error()), text(applied.error()));
  EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);
}

TEST_P(BatchTest, CommitsHappenInTheOrderOfTheCallsWithoutWaiting) {
  std::vector<PendingCommit> pending;
  for (int i = 0; i < 200; ++i) {
    Batch chained = batch(expecting(put("s", "k", std::to_string(i)), static_cast<Version>(i)),
                          append("l", std::to_string(i)));
    pending.push_back(begin(std::move(chained)));
  }
  for (std::size_t i = 0; i < pending.size(); ++i) {
    const auto result = wait(std::move(pending[i]));
    ASSERT_TRUE(result) << text(result.error());
    EXPECT_EQ(result->get<RecordWritten>(0).version, i + 1);
    EXPECT_EQ(result->get<Appended>(1).seq, i + 1);
  }
}

TEST_P(BatchTest, ARefusedCommitInBetweenHoldsUpNobody) {
  PendingCommit first = begin(batch(put("s", "k", "first")));
  PendingCommit refused = begin(batch(expecting(put("s", "k", "refused"), 7)));
  PendingCommit last = begin(batch(expecting(put("s", "k", "last"), 1)));
  EXPECT_TRUE(wait(std::move(last)));
  EXPECT_FALSE(wait(std::move(refused)));
  EXPECT_TRUE(wait(std::move(first)));
  EXPECT_EQ(value("s", "k"), "last");
}

TEST_P(BatchTest, AChainBreaksAtItsFirstRefusal) {
  std::vector<PendingCommit> pending;
  for (Version version : {0U, 1U, 9U, 3U}) {
    pending.push_back(begin(batch(expecting(put("s", "k", std::to_string(version)), version))));
  }
  std::vector<bool> applied;
  for (PendingCommit& commit : pending) applied.push_back(wait(std::move(commit)).has_value());
  EXPECT_EQ(applied, (std::vector<bool>{true, true, false, false}));
  EXPECT_EQ(value("s", "k"), "1");
}

TEST_P(BatchTest, AWriteCanBeReadOnceItIsDurable) {
  for (int i = 0; i < 50; ++i) {
    commit(put("s", "k", std::to_string(i)));
    ASSERT_EQ(value("s", "k"), std::to_string(i));
  }
}

TEST_P(BatchTest, TheStoreCanBeWritten) {
  EXPECT_TRUE(check());
  EXPECT_FALSE(store().describe().backend.empty());
}

}  // namespace
}  // namespace nimbus::store::conformance
