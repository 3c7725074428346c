#include "store/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>

namespace nimbus::store {
namespace {

// The words with which validate() was refused an operation, or "valid".
std::string verdict(std::vector<Operation> operations) {
  Batch batch;
  batch.operations = std::move(operations);
  const auto valid = validate(batch);
  if (valid) return "valid";
  EXPECT_EQ(valid.error().code(), Code::InvalidArgument);
  EXPECT_EQ(valid.error().outcome(), Outcome::NotApplied);
  const auto operation = valid.error().field("operation", -1);
  return operation < 0 ? "refused" : "refused at " + std::to_string(operation);
}

std::string verdict(Listing listing) {
  Batch batch;
  batch.listings.push_back(std::move(listing));
  return validate(batch) ? "valid" : "refused";
}

op::Put put(std::string space, std::string key) {
  return {std::move(space), std::move(key), "value", {}, {}};
}
op::Add add(std::string space, std::string key) {
  return {.space = std::move(space), .key = std::move(key), .delta = 1, .expected = {}};
}
op::Erase erase(std::string space, std::string key) {
  return {std::move(space), std::move(key), {}};
}
op::Touch touch(std::string space, std::string key) {
  return {std::move(space), std::move(key), {}, {}};
}
op::Append append(std::string log, std::string id) {
  return {std::move(log), std::move(id), "value", {}, "print"};
}
op::Amend amend(std::string log, std::string id) {
  return {std::move(log), std::move(id), "value", {}, {}};
}
op::Remove remove(std::string log, std::string id) {
  return {std::move(log), std::move(id), {}};
}
op::RemoveRange removeRange(std::string log) {
  return {std::move(log), 1, 2};
}
op::RemoveTerm removeTerm(std::string log) {
  return {std::move(log), {"index", "term"}};
}
op::Acquire acquire(std::string lease) {
  return {std::move(lease), "holder", 1, {}, {}};
}
op::Push push(std::string queue, std::string id) {
  return {std::move(queue), std::move(id), "payload", {}};
}
op::Take take(std::string limiter) {
  return {std::move(limiter), std::chrono::microseconds(1), 1, 1};
}

const std::string kTooLong(kMaxNameBytes + 1, 'x');
const std::string kLongest(kMaxNameBytes, 'x');

// ---- names

TEST(ValidateTest, TheEmptyBatchIsValid) {
  EXPECT_EQ(verdict(std::vector<Operation>{}), "valid");
}

TEST(ValidateTest, NamesHaveOneToTheMostBytes) {
  for (const std::string& name : {std::string("x"), std::string(1, '\0'), kLongest}) {
    EXPECT_EQ(
        verdict({put(name, name), append(name, name), acquire(name), push(name, name), take(name)}),
        "valid");
  }
  for (const std::string& name : {std::string(), kTooLong}) {
    EXPECT_EQ(verdict({put(name, "k")}), "refused at 0");
    EXPECT_EQ(verdict({put("s", name)}), "refused at 0");
    EXPECT_EQ(verdict({add(name, "k")}), "refused at 0");
    EXPECT_EQ(verdict({erase("s", name)}), "refused at 0");
    EXPECT_EQ(verdict({touch("s", name)}), "refused at 0");
    EXPECT_EQ(verdict({op::EraseSpace{name}}), "refused at 0");
    EXPECT_EQ(verdict({append(name, "e")}), "refused at 0");
    EXPECT_EQ(verdict({append("l", name)}), "refused at 0");
    EXPECT_EQ(verdict({amend("l", name)}), "refused at 0");
    EXPECT_EQ(verdict({remove("l", name)}), "refused at 0");
    EXPECT_EQ(verdict({removeRange(name)}), "refused at 0");
    EXPECT_EQ(verdict({removeTerm(name)}), "refused at 0");
    EXPECT_EQ(verdict({op::DropLog{name}}), "refused at 0");
    EXPECT_EQ(verdict({acquire(name)}), "refused at 0");
    EXPECT_EQ(verdict({op::Renew{name, {}, {}}}), "refused at 0");
    EXPECT_EQ(verdict({op::Release{name, {}}}), "refused at 0");
    EXPECT_EQ(verdict({push(name, "i")}), "refused at 0");
    EXPECT_EQ(verdict({push("q", name)}), "refused at 0");
    EXPECT_EQ(verdict({op::Join{"q", name}}), "refused at 0");
    EXPECT_EQ(verdict({op::Defer{"q", name, {}}}), "refused at 0");
    EXPECT_EQ(verdict({op::Complete{"q", name}}), "refused at 0");
    EXPECT_EQ(verdict({op::Park{"q", name, ""}}), "refused at 0");
    EXPECT_EQ(verdict({op::Revive{"q", name}}), "refused at 0");
    EXPECT_EQ(verdict({take(name)}), "refused at 0");
  }
}

TEST(ValidateTest, TheRefusedOperationIsPointedOut) {
  EXPECT_EQ(verdict({put("s", "a"), put("s", "b"), put("s", "")}), "refused at 2");
}

TEST(ValidateTest, TermsNeedAnIndexAndMayBeEmpty) {
  op::Append entry = append("l", "e");
  entry.terms = {{"index", ""}, {"index", kLongest}};
  EXPECT_EQ(verdict({entry}), "valid");
  entry.terms = {{"index", "fine"}, {"", "term"}};
  EXPECT_EQ(verdict({entry}), "refused at 0");
  entry.terms = {{kTooLong, "term"}};
  EXPECT_EQ(verdict({entry}), "refused at 0");
  entry.terms = {{"index", kTooLong}};
  EXPECT_EQ(verdict({entry}), "refused at 0");
  op::Amend amended = amend("l", "e");
  amended.terms = {{"", "term"}};
  EXPECT_EQ(verdict({amended}), "refused at 0");
  EXPECT_EQ(verdict({op::RemoveTerm{"l", {"", "term"}}}), "refused at 0");
}

TEST(ValidateTest, ALeaseNeedsAHolder) {
  EXPECT_EQ(verdict({op::Acquire{"lease", "", 1, {}, {}}}), "refused at 0");
}

TEST(ValidateTest, AVersionThatIsGivenIsNeitherZeroNorBeyondAllNumbers) {
  op::Put writing = put("s", "a");
  op::Touch touching = touch("s", "a");
  for (const Version version : {Version{1}, kMaxVersion}) {
    writing.version = touching.version = version;
    EXPECT_EQ(verdict({writing}), "valid");
    EXPECT_EQ(verdict({op::EraseSpace{"s"}, writing}), "valid");
    EXPECT_EQ(verdict({touching}), "valid");
  }
  for (const Version version : {Version{0}, kMaxVersion + 1, UINT64_MAX}) {
    writing.version = touching.version = version;
    EXPECT_EQ(verdict({writing}), "refused at 0");
    EXPECT_EQ(verdict({touching}), "refused at 0");
  }
}

TEST(ValidateTest, TheLastVersionOfWhatIsRemovedIsNotBeyondAllNumbers) {
  op::Erase erasing = erase("s", "a");
  op::EraseSpace clearing{"s"};
  for (const Version last : {Version{0}, Version{1}, kMaxVersion}) {
    erasing.last = clearing.last = last;
    EXPECT_EQ(verdict({erasing}), "valid");
    EXPECT_EQ(verdict({clearing}), "valid");
  }
  for (const Version last : {kMaxVersion + 1, UINT64_MAX}) {
    erasing.last = clearing.last = last;
    EXPECT_EQ(verdict({erasing}), "refused at 0");
    EXPECT_EQ(verdict({clearing}), "refused at 0");
  }
}

TEST(ValidateTest, ListingsHaveNames) {
  EXPECT_EQ(verdict(Listing{"d", "k", ""}), "valid");
  EXPECT_EQ(verdict(Listing{kLongest, kLongest, std::nullopt}), "valid");
  for (const std::string& name : {std::string(), kTooLong}) {
    EXPECT_EQ(verdict(Listing{name, "k", ""}), "refused");
    EXPECT_EQ(verdict(Listing{"d", name, std::nullopt}), "refused");
  }
}

TEST(ValidateTest, ABatchHasABound) {
  std::vector<Operation> operations;
  for (std::size_t i = 0; i < kMaxOperations; ++i) {
    operations.emplace_back(put("s", std::to_string(i)));
  }
  EXPECT_EQ(verdict(operations), "valid");
  operations.emplace_back(put("s", "one more"));
  EXPECT_EQ(verdict(operations), "refused");
}

// ---- each thing once

TEST(ValidateTest, ARecordIsTouchedOnce) {
  const std::vector<Operation> writes = {put("s", "k"), add("s", "k"), erase("s", "k"),
                                         touch("s", "k")};
  for (const Operation& first : writes) {
    for (const Operation& second : writes) {
      EXPECT_EQ(verdict({first, put("s", "between"), second}), "refused");
    }
  }
  EXPECT_EQ(verdict({put("s", "k"), put("s", "K"), put("t", "k")}), "valid");
}

TEST(ValidateTest, AnEntryIsTouchedOnce) {
  const std::vector<Operation> changes = {append("l", "e"), amend("l", "e"), remove("l", "e")};
  for (const Operation& first : changes) {
    for (const Operation& second : changes) EXPECT_EQ(verdict({first, second}), "refused");
  }
  EXPECT_EQ(verdict({append("l", "a"), append("l", "b"), append("m", "a"), amend("l", "c")}),
            "valid");
}

TEST(ValidateTest, AnItemIsTouchedOnce) {
  const std::vector<Operation> changes = {push("q", "i"),          op::Join{"q", "i"},
                                          op::Defer{"q", "i", {}}, op::Complete{"q", "i"},
                                          op::Park{"q", "i", ""},  op::Revive{"q", "i"}};
  for (const Operation& first : changes) {
    for (const Operation& second : changes) EXPECT_EQ(verdict({first, second}), "refused");
  }
  EXPECT_EQ(verdict({push("q", "a"), push("q", "b"), push("r", "a")}), "valid");
}

TEST(ValidateTest, ALeaseAndALimiterAreTouchedOnce) {
  EXPECT_EQ(verdict({acquire("lease"), op::Renew{"lease", {}, {}}}), "refused");
  EXPECT_EQ(verdict({op::Release{"lease", {}}, acquire("lease")}), "refused");
  EXPECT_EQ(verdict({take("limit"), take("limit")}), "refused");
  EXPECT_EQ(verdict({acquire("a"), acquire("b"), take("a"), take("b")}), "valid");
}

TEST(ValidateTest, ThingsOfSeveralKindsMayShareTheirNames) {
  EXPECT_EQ(verdict({put("x", "y"), append("x", "y"), push("x", "y"), acquire("y"), take("y")}),
            "valid");
}

// ---- what removes many at once

TEST(ValidateTest, OnlyPutsAndAddsFollowAnEraseSpace) {
  const op::EraseSpace clear{"s"};
  EXPECT_EQ(verdict({clear, put("s", "a"), add("s", "b")}), "valid");
  EXPECT_EQ(verdict({clear, erase("s", "a")}), "refused at 1");
  EXPECT_EQ(verdict({clear, touch("s", "a")}), "refused at 1");
  EXPECT_EQ(verdict({clear, clear}), "refused at 1");
  EXPECT_EQ(verdict({clear, op::EraseSpace{"t"}, erase("u", "a")}), "valid");
}

TEST(ValidateTest, NothingComesBeforeAnEraseSpaceOfItsSpace) {
  for (const Operation& before :
       std::vector<Operation>{put("s", "a"), add("s", "a"), erase("s", "a"), touch("s", "a")}) {
    EXPECT_EQ(verdict({before, op::EraseSpace{"s"}}), "refused at 1");
    EXPECT_EQ(verdict({before, op::EraseSpace{"t"}}), "valid");
  }
}

TEST(ValidateTest, AfterAnEraseSpaceThereIsNoVersionToExpect) {
  op::Put expecting = put("s", "a");
  expecting.expected = 0;
  EXPECT_EQ(verdict({op::EraseSpace{"s"}, expecting}), "refused at 1");
  EXPECT_EQ(verdict({op::EraseSpace{"t"}, expecting}), "valid");
  op::Add adding = add("s", "a");
  adding.expected = 3;
  EXPECT_EQ(verdict({op::EraseSpace{"s"}, adding}), "refused at 1");
}

TEST(ValidateTest, APutAfterAnEraseSpaceStillCountsOnce) {
  EXPECT_EQ(verdict({op::EraseSpace{"s"}, put("s", "a"), add("s", "a")}), "refused");
}

TEST(ValidateTest, OnlyAppendsFollowARemovalOfMany) {
  for (const Operation& removal : std::vector<Operation>{removeRange("l"), removeTerm("l")}) {
    EXPECT_EQ(verdict({removal, append("l", "a"), append("l", "b")}), "valid");
    EXPECT_EQ(verdict({removal, removeRange("l"), removeTerm("l"), append("l", "a")}), "valid");
    EXPECT_EQ(verdict({removal, amend("l", "a")}), "refused at 1");
    EXPECT_EQ(verdict({removal, remove("l", "a")}), "refused at 1");
    EXPECT_EQ(verdict({removal, op::DropLog{"l"}}), "refused at 1");
    EXPECT_EQ(verdict({append("l", "a"), removal}), "refused at 1");
    EXPECT_EQ(verdict({amend("l", "a"), removal}), "refused at 1");
    EXPECT_EQ(verdict({remove("m", "a"), removal, append("m", "b")}), "valid");
  }
}

TEST(ValidateTest, NothingGoesWithADropLog) {
  const op::DropLog drop{"l"};
  EXPECT_EQ(verdict({drop, append("m", "a")}), "valid");
  for (const Operation& other :
       std::vector<Operation>{append("l", "a"), amend("l", "a"), remove("l", "a"), removeRange("l"),
                              removeTerm("l"), drop}) {
    EXPECT_EQ(verdict({drop, other}), "refused at 1");
    EXPECT_EQ(verdict({other, drop}), "refused at 1");
  }
}

TEST(ValidateTest, ConditionsNameThingsByTheSameRules) {
  const std::string longest(kMaxNameBytes, 'n');
  const std::string too_long = longest + "n";
  const auto refusedAt = [](Condition condition) {
    Batch batch;
    batch.conditions.emplace_back(require::RecordVersion{"s", "k", 0});
    batch.conditions.push_back(std::move(condition));
    const auto valid = validate(batch);
    return valid ? -1 : valid.error().field("condition", -2);
  };
  EXPECT_EQ(refusedAt(require::RecordVersion{longest, longest, 1}), -1);
  EXPECT_EQ(refusedAt(require::RecordVersion{"s", "", 1}), 1);
  EXPECT_EQ(refusedAt(require::RecordVersion{too_long, "k", 1}), 1);
  EXPECT_EQ(refusedAt(require::SpaceWithin{"", 1, 1}), 1);
  EXPECT_EQ(refusedAt(require::LogEndsAt{too_long, 1}), 1);
  EXPECT_EQ(refusedAt(require::LogUnchanged{"", 1}), 1);
  EXPECT_EQ(refusedAt(require::QueueWithin{"", 1}), 1);
}

TEST(ValidateTest, DropPartitionIsTheOnlyOperation) {
  EXPECT_EQ(verdict({op::DropPartition{}}), "valid");
  EXPECT_EQ(verdict({op::DropPartition{}, put("s", "k")}), "refused");
  EXPECT_EQ(verdict({put("s", "k"), op::DropPartition{}}), "refused");
  EXPECT_EQ(verdict({op::DropPartition{}, op::DropPartition{}}), "refused");
}

TEST(ValidateTest, DropPartitionMayHaveConditionsAndListings) {
  Batch batch;
  batch.conditions.emplace_back(require::RecordVersion{"s", "k", 1});
  batch.operations.emplace_back(op::DropPartition{});
  batch.listings.push_back({"d", "k", std::nullopt});
  EXPECT_TRUE(validate(batch));
}

}  // namespace
}  // namespace nimbus::store
