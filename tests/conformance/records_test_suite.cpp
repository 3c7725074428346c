// Records: put, erase, add, touch and their expected versions.

#include "suites.h"

#include <limits>

namespace nimbus::store::conformance {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

TEST_P(RecordTest, APutIsThereToRead) {
  const RecordWritten written = this->written(put("s", "k", "hello"));
  EXPECT_EQ(written.version, 1U);
  EXPECT_EQ(written.expires_at, std::nullopt);
  const auto record = get("s", "k");
  ASSERT_TRUE(record);
  EXPECT_EQ(record->key, "k");
  EXPECT_EQ(record->value, "hello");
  EXPECT_EQ(record->size, 5U);
  EXPECT_EQ(record->version, 1U);
  EXPECT_EQ(record->expires_at, std::nullopt);
  EXPECT_EQ(record->updated_at, now());
}

TEST_P(RecordTest, WhatWasNeverWrittenIsAbsent) {
  EXPECT_FALSE(exists("s", "k"));
  commit(put("s", "k"));
  EXPECT_FALSE(exists("s", "other"));
  EXPECT_FALSE(exists("other", "k"));
}

TEST_P(RecordTest, APutReplacesTheValueAndTellsWhen) {
  commit(put("s", "k", "old"));
  advance(5ms);
  commit(put("s", "k", "new"));
  const auto record = get("s", "k");
  EXPECT_EQ(record->value, "new");
  EXPECT_EQ(record->version, 2U);
  EXPECT_EQ(record->updated_at, now());
}

TEST_P(RecordTest, ValuesAreBytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& value : {std::string(), std::string(1, '\0'), all, all + all,
                                   std::string("a\0b\0", 4), std::string("\xff\xfe not UTF-8")}) {
    commit(put("s", "k", value));
    const auto record = get("s", "k");
    EXPECT_EQ(record->value, value);
    EXPECT_EQ(record->size, value.size());
  }
}

TEST_P(RecordTest, AMebibyteComesBackAsItWas) {
  std::string value(1U << 20U, '\0');
  for (std::size_t i = 0; i < value.size(); ++i) value[i] = static_cast<char>(i * 31 + i / 251);
  commit(put("s", "k", value));
  EXPECT_TRUE(get("s", "k")->value == value);
  if (reopen()) EXPECT_TRUE(get("s", "k")->value == value);
}

TEST_P(RecordTest, AnEmptyValueIsNotAnAbsentOne) {
  commit(put("s", "k", ""));
  EXPECT_TRUE(exists("s", "k"));
  EXPECT_EQ(usage("s"), (Usage{1, 0}));
}

// ---- erase

TEST_P(RecordTest, ErasedIsGone) {
  commit(put("s", "k"), put("s", "other"));
  EXPECT_EQ(removed(erase("s", "k")), 1U);
  EXPECT_FALSE(exists("s", "k"));
  EXPECT_TRUE(exists("s", "other"));
}

TEST_P(RecordTest, ErasingWhatIsNotThereIsNoError) {
  EXPECT_EQ(removed(erase("s", "k")), 0U);
  commit(put("s", "k"), put("s", "other"));
  commit(erase("s", "k"));
  EXPECT_EQ(removed(erase("s", "k")), 0U);
}

TEST_P(RecordTest, ErasingWithTheRightVersion) {
  commit(put("s", "k"));
  EXPECT_EQ(removed(expecting(erase("s", "k"), 1)), 1U);
  EXPECT_EQ(removed(expecting(erase("s", "k"), 0)), 0U);
}

TEST_P(RecordTest, ErasingWithAnotherVersionIsRefused) {
  EXPECT_EQ(refused(expecting(erase("s", "k"), 1)),
            "version_conflict current_version=0 operation=0");
  commit(put("s", "k"));
  EXPECT_EQ(refused(expecting(erase("s", "k"), 2)),
            "version_conflict current_version=1 operation=0");
  EXPECT_EQ(refused(expecting(erase("s", "k"), 0)),
            "version_conflict current_version=1 operation=0");
}

// ---- expected versions of writes

TEST_P(RecordTest, ExpectingNothingCreates) {
  EXPECT_EQ(written(expecting(put("s", "k"), 0)).version, 1U);
  EXPECT_EQ(refused(expecting(put("s", "k", "again"), 0)),
            "version_conflict current_version=1 operation=0");
}

TEST_P(RecordTest, ExpectingAVersionReplacesExactlyThat) {
  commit(put("s", "k", "first"));
  EXPECT_EQ(written(expecting(put("s", "k", "second"), 1)).version, 2U);
  EXPECT_EQ(refused(expecting(put("s", "k", "third"), 1)),
            "version_conflict current_version=2 operation=0");
  EXPECT_EQ(refused(expecting(put("s", "k", "third"), 3)),
            "version_conflict current_version=2 operation=0");
  EXPECT_EQ(value("s", "k"), "second");
}

TEST_P(RecordTest, ExpectingAVersionOfNothingIsRefused) {
  EXPECT_EQ(refused(expecting(put("s", "k"), 1)), "version_conflict current_version=0 operation=0");
}

TEST_P(RecordTest, WithoutAnExpectedVersionTheLastWriteWins) {
  for (int i = 0; i < 5; ++i) commit(put("s", "k", std::to_string(i)));
  EXPECT_EQ(value("s", "k"), "4");
  EXPECT_EQ(version("s", "k"), 5U);
}

TEST_P(RecordTest, ExpectedVersionsReachAllOfSixtyThreeBits) {
  commit(put("s", "k"));
  EXPECT_EQ(refused(expecting(put("s", "k"), std::numeric_limits<std::int64_t>::max())),
            "version_conflict current_version=1 operation=0");
}

TEST_P(RecordTest, ARequiredVersionGuardsOtherWrites) {
  commit(put("s", "guard"));
  commit(require::RecordVersion{"s", "guard", 1}, put("s", "k"));
  EXPECT_EQ(refused(require::RecordVersion{"s", "guard", 2}, put("s", "k", "no")),
            "version_conflict condition=0 current_version=1");
  EXPECT_EQ(refused(require::RecordVersion{"s", "absent", 1}, put("s", "k", "no")),
            "version_conflict condition=0 current_version=0");
  commit(require::RecordVersion{"s", "absent", 0}, put("s", "k", "yes"));
  EXPECT_EQ(value("s", "k"), "yes");
}

TEST_P(RecordTest, ARequiredVersionIsTheOneBeforeTheBatch) {
  commit(put("s", "k"));
  const Applied applied = commit(require::RecordVersion{"s", "k", 1}, put("s", "k", "new"));
  EXPECT_EQ(applied.get<RecordWritten>(0).version, 2U);
}

// ---- add

TEST_P(RecordTest, AMissingRecordCountsAsZero) {
  const Added first = added(add("s", "n", 5));
  EXPECT_EQ(first.value, 5);
  EXPECT_EQ(first.version, 1U);
  EXPECT_EQ(value("s", "n"), "5");
}

TEST_P(RecordTest, AddsUpAndDown) {
  commit(add("s", "n", 5));
  EXPECT_EQ(added(add("s", "n", -12)).value, -7);
  EXPECT_EQ(value("s", "n"), "-7");
  const Added same = added(add("s", "n", 0));
  EXPECT_EQ(same.value, -7);
  EXPECT_EQ(same.version, 3U);
}

TEST_P(RecordTest, AddsToWhatAPutWrote) {
  commit(put("s", "n", "41"));
  EXPECT_EQ(added(add("s", "n", 1)).value, 42);
  EXPECT_EQ(value("s", "n"), "42");
  EXPECT_EQ(get("s", "n")->size, 2U);
}

TEST_P(RecordTest, AddReachesBothEndsOfSixtyFourBits) {
  EXPECT_EQ(added(add("s", "max", kMax)).value, kMax);
  EXPECT_EQ(value("s", "max"), "9223372036854775807");
  EXPECT_EQ(added(add("s", "min", kMin)).value, kMin);
  EXPECT_EQ(value("s", "min"), "-9223372036854775808");
  EXPECT_EQ(added(add("s", "max", kMin)).value, -1);
}

TEST_P(RecordTest, AddNeverOverflows) {
  commit(add("s", "max", kMax), add("s", "min", kMin));
  EXPECT_EQ(refused(add("s", "max", 1)), "invalid_argument operation=0");
  EXPECT_EQ(refused(add("s", "min", -1)), "invalid_argument operation=0");
  EXPECT_EQ(refused(add("s", "max", kMax)), "invalid_argument operation=0");
}

TEST_P(RecordTest, AddIsExactBeyondWhatADoubleHolds) {
  commit(put("s", "n", "9007199254740993"));
  EXPECT_EQ(added(add("s", "n", 1)).value, 9007199254740994);
  EXPECT_EQ(value("s", "n"), "9007199254740994");
}

TEST_P(RecordTest, AddRefusesWhatIsNoInteger) {
  for (const std::string& value :
       {std::string(), std::string("x"), std::string("1.5"), std::string("1e3"), std::string("007"),
        std::string("-0"), std::string("+1"), std::string(" 1"), std::string("1 "),
        std::string("0x10"), std::string("-"), std::string("1\0", 2),
        std::string("9223372036854775808"), std::string("-9223372036854775809")}) {
    commit(put("s", "n", value));
    EXPECT_EQ(refused(add("s", "n", 1)), "invalid_argument operation=0") << text(value);
    EXPECT_EQ(this->value("s", "n"), value);
  }
}

TEST_P(RecordTest, AddHeedsAnExpectedVersion) {
  EXPECT_EQ(added(expecting(add("s", "n", 1), 0)).value, 1);
  EXPECT_EQ(added(expecting(add("s", "n", 1), 1)).value, 2);
  EXPECT_EQ(refused(expecting(add("s", "n", 1), 1)),
            "version_conflict current_version=2 operation=0");
}

TEST_P(RecordTest, AddLooksAtTheVersionBeforeTheValue) {
  commit(put("s", "n", "x"));
  EXPECT_EQ(refused(expecting(add("s", "n", 1), 9)),
            "version_conflict current_version=1 operation=0");
}

TEST_P(RecordTest, AddTellsWhen) {
  commit(add("s", "n", 1));
  advance(7ms);
  commit(add("s", "n", 1));
  EXPECT_EQ(get("s", "n")->updated_at, now());
}

// ---- touch

TEST_P(RecordTest, TouchChangesOnlyTheExpiryAndTheVersion) {
  commit(put("s", "k", "value"));
  const auto before = get("s", "k");
  advance(3ms);
  const RecordWritten touched = written(touch("s", "k", now() + 1s));
  EXPECT_EQ(touched.version, 2U);
  EXPECT_EQ(touched.expires_at, now() + 1s);
  auto after = *get("s", "k");
  EXPECT_EQ(after.version, 2U);
  EXPECT_EQ(after.expires_at, now() + 1s);
  after.version = before->version;
  after.expires_at = before->expires_at;
  EXPECT_EQ(text(after), text(*before));
}

TEST_P(RecordTest, TouchCanTakeTheExpiryAway) {
  commit(expiring(put("s", "k"), now() + 1s));
  EXPECT_EQ(written(touch("s", "k", std::nullopt)).expires_at, std::nullopt);
  advance(2s);
  EXPECT_TRUE(exists("s", "k"));
}

TEST_P(RecordTest, TouchNeedsARecord) {
  EXPECT_EQ(refused(touch("s", "k", std::nullopt)), "not_found operation=0");
  commit(put("s", "k"));
  commit(erase("s", "k"));
  EXPECT_EQ(refused(touch("s", "k", std::nullopt)), "not_found operation=0");
}

TEST_P(RecordTest, TouchHeedsAnExpectedVersion) {
  commit(put("s", "k"));
  EXPECT_EQ(written(expecting(touch("s", "k", now() + 1s), 1)).version, 2U);
  EXPECT_EQ(refused(expecting(touch("s", "k", now() + 2s), 1)),
            "version_conflict current_version=2 operation=0");
}

// An absent record has version 0, so the conflict is the first thing that is wrong.
TEST_P(RecordTest, TouchOfNothingWithAnExpectedVersionIsAConflict) {
  EXPECT_EQ(refused(expecting(touch("s", "k", now() + 1s), 4)),
            "version_conflict current_version=0 operation=0");
  EXPECT_EQ(refused(expecting(touch("s", "k", now() + 1s), 0)), "not_found operation=0");
}

TEST_P(RecordTest, WhatIsWrittenOutlivesTheStore) {
  commit(put("s", "k", "value"), expiring(put("s", "e", "soon"), now() + 1s), add("s", "n", 3));
  commit(put("s", "k", "newer"));
  const std::string before = dump();
  if (!reopen()) return;
  EXPECT_EQ(dump(), before);
  EXPECT_EQ(added(add("s", "n", 4)).value, 7);
}

}  // namespace
}  // namespace nimbus::store::conformance
