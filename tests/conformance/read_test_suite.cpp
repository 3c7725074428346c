// Reads: several questions at once, scans of records, and pages.

#include "suites.h"

namespace nimbus::store::conformance {
namespace {

TEST_P(ReadTest, AnswersComeInTheOrderOfTheQuestions) {
  commit(put("s", "k", "v"), append("l", "e"), push("q", "i"), acquire("owner", "me"));
  const std::vector<Answer> answers =
      read({query::GetLogInfo{"l"}, query::GetRecord{"s", "k"}, query::GetQueueInfo{"q"},
            query::GetLease{"owner"}, query::GetRecord{"s", "absent"}, query::GetUsage{"s"}});
  ASSERT_EQ(answers.size(), 6U);
  EXPECT_EQ(std::get<LogInfo>(answers[0]).entries, 1U);
  EXPECT_EQ(std::get<std::optional<Record>>(answers[1])->value, "v");
  EXPECT_EQ(std::get<QueueInfo>(answers[2]).waiting, 1U);
  EXPECT_EQ(std::get<std::optional<Lease>>(answers[3])->holder, "me");
  EXPECT_EQ(std::get<std::optional<Record>>(answers[4]), std::nullopt);
  EXPECT_EQ(std::get<Usage>(answers[5]).records, 1U);
}

TEST_P(ReadTest, NoQuestionsHaveNoAnswers) {
  EXPECT_TRUE(read({}).empty());
}

TEST_P(ReadTest, TheSameQuestionMayBeAskedTwice) {
  commit(put("s", "k", "v"));
  const auto answers = read({query::GetRecord{"s", "k"}, query::GetRecord{"s", "k"}});
  EXPECT_EQ(text(answers.at(0)), text(answers.at(1)));
}

TEST_P(ReadTest, ManyQuestionsAtOnce) {
  std::vector<Query> queries;
  for (int i = 0; i < 500; ++i) {
    commit(put("s", std::to_string(i), std::to_string(i)));
    queries.emplace_back(query::GetRecord{"s", std::to_string(i)});
  }
  const auto answers = read(queries);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    EXPECT_EQ(std::get<std::optional<Record>>(answers[i])->value, std::to_string(i));
  }
}

TEST_P(ReadTest, EveryLimitMustBeWithinBounds) {
  for (const std::size_t limit : {std::size_t{0}, kMaxPage + 1}) {
    const std::vector<Query> queries = {
        query::ScanRecords{.space = "s", .after = {}, .prefix = {}, .limit = limit},
        query::ScanLog{.log = "l", .limit = limit},
        query::ScanIndex{
            .log = "l", .index = "i", .first = "a", .last = "b", .after = {}, .limit = limit},
        query::ScanQueue{.queue = "q", .after = {}, .limit = limit}};
    for (const Query& query : queries) EXPECT_EQ(readError(query), "invalid_argument");
  }
  EXPECT_EQ(readError(query::ScanLog{.log = "l", .limit = kMaxPage}), "answered");
}

TEST_P(ReadTest, OneBadLimitRefusesAllQuestions) {
  const auto answers = tryRead({query::GetUsage{"s"}, query::ScanLog{.log = "l", .limit = 0}});
  ASSERT_FALSE(answers);
  EXPECT_EQ(answers.error().code(), Code::InvalidArgument);
}

TEST_P(ReadTest, GetRecordAskedByItselfAnswersTheSame) {
  TaskRunner runner;
  commit(put("s", "k", "v"));
  const auto record = runner.run(getRecord(store(), partition(), "s", "k"));
  ASSERT_TRUE(record);
  EXPECT_EQ(text(record->value()), text(*get("s", "k")));
}

// ---- scans of records

TEST_P(ReadTest, RecordsComeInTheOrderOfTheirKeysBytes) {
  for (const char* key : {"b", "a", "B", "aa", "\xc3\xa9", "a\xff", "_"}) commit(put("s", key));
  EXPECT_THAT(keys({.space = "s", .after = {}, .prefix = {}}),
              ElementsAre("B", "_", "a", "aa", "a\xff", "b", "\xc3\xa9"));
}

TEST_P(ReadTest, OneSpaceIsScanned) {
  commit(put("s", "a"), put("t", "b"), put("ss", "c"));
  EXPECT_THAT(keys({.space = "s", .after = {}, .prefix = {}}), ElementsAre("a"));
}

TEST_P(ReadTest, AfterAndPrefixNarrowTheScan) {
  for (const char* key : {"a", "ab", "abc", "abd", "ac", "b"}) commit(put("s", key));
  const auto scan = [&](std::string after, std::string prefix) {
    return keys({.space = "s", .after = after, .prefix = prefix});
  };
  EXPECT_THAT(scan("", "ab"), ElementsAre("ab", "abc", "abd"));
  EXPECT_THAT(scan("ab", "ab"), ElementsAre("abc", "abd"));
  EXPECT_THAT(scan("abcc", "ab"), ElementsAre("abd"));
  EXPECT_THAT(scan("a", "ab"), ElementsAre("ab", "abc", "abd"));
  EXPECT_THAT(scan("abc", ""), ElementsAre("abd", "ac", "b"));
  EXPECT_THAT(scan("b", ""), IsEmpty());
  EXPECT_THAT(scan("b", "ab"), IsEmpty());
  EXPECT_THAT(scan("", "x"), IsEmpty());
}

TEST_P(ReadTest, APrefixOfTheHighestBytesEndsWhereItShould) {
  for (const char* key : {"\xfe", "\xff", "\xff\x01", "\xff\xff", "\xff\xff\xff"}) {
    commit(put("s", key));
  }
  EXPECT_EQ(keys({.space = "s", .after = {}, .prefix = "\xff"}).size(), 4U);
  EXPECT_EQ(keys({.space = "s", .after = {}, .prefix = "\xff\xff"}).size(), 2U);
  EXPECT_EQ(keys({.space = "s", .after = "\xff\xff", .prefix = "\xff\xff"}).size(), 1U);
}

TEST_P(ReadTest, ValuesCanBeLeftOut) {
  commit(put("s", "a", "12345"), expiring(put("s", "b", ""), now() + 1s));
  auto with = ask<RecordPage>(query::ScanRecords{.space = "s", .after = {}, .prefix = {}});
  const auto without = ask<RecordPage>(
      query::ScanRecords{.space = "s", .after = {}, .prefix = {}, .values = Values::Omit});
  EXPECT_EQ(with.items.at(0).value, "12345");
  EXPECT_EQ(without.items.at(0).value, "");
  EXPECT_EQ(without.items.at(0).size, 5U);
  for (Record& record : with.items) record.value.clear();
  EXPECT_EQ(text(Answer(with)), text(Answer(without)));
}

TEST_P(ReadTest, MoreIsExactAtTheBorderOfAPage) {
  for (const char* key : {"a", "b", "ba", "c"}) commit(put("s", key));
  const auto more = [&](std::string after, std::string prefix, std::size_t limit) {
    return ask<RecordPage>(
               query::ScanRecords{.space = "s", .after = after, .prefix = prefix, .limit = limit})
        .more;
  };
  EXPECT_TRUE(more("", "", 3));
  EXPECT_FALSE(more("", "", 4));
  EXPECT_FALSE(more("", "", 5));
  EXPECT_FALSE(more("a", "", 3));
  EXPECT_TRUE(more("a", "", 2));
  EXPECT_FALSE(more("", "b", 2)) << "keys without the prefix do not count";
  EXPECT_TRUE(more("", "b", 1));
}

TEST_P(ReadTest, MoreDoesNotCountExpiredRecords) {
  commit(put("s", "a"), expiring(put("s", "b"), now() + 1ms));
  const query::ScanRecords one{.space = "s", .after = {}, .prefix = {}, .limit = 1};
  EXPECT_TRUE(ask<RecordPage>(one).more);
  advance(1ms);
  EXPECT_FALSE(ask<RecordPage>(one).more);
}

TEST_P(ReadTest, PagesCoverASpaceOnce) {
  for (int i = 0; i < 30; ++i) commit(put("s", "k" + std::to_string(i)));
  const std::vector<std::string> whole = keys({.space = "s", .after = {}, .prefix = {}});
  for (const std::size_t limit : {1U, 7U, 15U, 29U, 30U}) {
    std::vector<std::string> paged;
    query::ScanRecords query{.space = "s", .after = {}, .prefix = {}, .limit = limit};
    for (bool more = true; more && paged.size() < kEnough;) {
      const auto page = ask<RecordPage>(query);
      ASSERT_FALSE(page.items.empty());
      for (const Record& record : page.items) paged.push_back(record.key);
      query.after = paged.back();
      more = page.more;
    }
    EXPECT_EQ(paged, whole);
  }
}

TEST_P(ReadTest, TheLargestPageIsAnswered) {
  Batch batch;
  for (std::size_t i = 0; i < kMaxPage; ++i) {
    batch.operations.emplace_back(put("s", std::to_string(i), ""));
  }
  applied(std::move(batch));
  commit(put("s", "one more"));
  const auto page = ask<RecordPage>(
      query::ScanRecords{.space = "s", .after = {}, .prefix = {}, .limit = kMaxPage});
  EXPECT_EQ(page.items.size(), kMaxPage);
  EXPECT_TRUE(page.more);
}

TEST_P(ReadTest, ASecondInstanceReadsWhatIsDurable) {
  const std::unique_ptr<Store> second = openSecond();
  if (!second) return;
  Client other(*second, partition());
  for (int i = 0; i < 20; ++i) {
    commit(put("s", "k", std::to_string(i)));
    EXPECT_EQ(other.value("s", "k"), std::to_string(i));
    other.commit(put("s", "l", std::to_string(i)));
    EXPECT_EQ(value("s", "l"), std::to_string(i));
  }
  EXPECT_EQ(version("s", "k"), 20U);
}

}  // namespace
}  // namespace nimbus::store::conformance
