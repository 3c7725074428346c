// Logs by seq and by index term: ScanLog, ScanIndex, RemoveTerm.

#include "suites.h"

#include <algorithm>

namespace nimbus::store::conformance {
namespace {

std::vector<Seq> seqsOf(const EntryPage& page) {
  std::vector<Seq> seqs;
  for (const Entry& entry : page.items) seqs.push_back(entry.seq);
  return seqs;
}

class Fill {
 public:
  explicit Fill(Client& client) : client_(client) {}
  void entries(int count) const {
    for (int i = 1; i <= count; ++i) client_.commit(append("l", "e" + std::to_string(i)));
  }

 private:
  Client& client_;
};

// ---- by seq

TEST_P(LogIndexTest, ScansUpAndDown) {
  Fill(*this).entries(4);
  EXPECT_EQ(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l"})), (std::vector<Seq>{1, 2, 3, 4}));
  EXPECT_EQ(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .order = Order::Descending})),
            (std::vector<Seq>{4, 3, 2, 1}));
}

TEST_P(LogIndexTest, ScansARangeWithBothEnds) {
  Fill(*this).entries(6);
  EXPECT_EQ(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .from = 2, .to = 4})),
            (std::vector<Seq>{2, 3, 4}));
  EXPECT_EQ(seqsOf(ask<EntryPage>(
                query::ScanLog{.log = "l", .from = 2, .to = 4, .order = Order::Descending})),
            (std::vector<Seq>{4, 3, 2}));
  EXPECT_THAT(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .from = 5, .to = 4})), IsEmpty());
  EXPECT_THAT(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .from = 7})), IsEmpty());
  EXPECT_EQ(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .from = 0, .to = 1})),
            (std::vector<Seq>{1}));
}

TEST_P(LogIndexTest, ALimitTakesTheNearEndOfTheOrder) {
  Fill(*this).entries(5);
  EXPECT_EQ(seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .limit = 2})),
            (std::vector<Seq>{1, 2}));
  EXPECT_EQ(
      seqsOf(ask<EntryPage>(query::ScanLog{.log = "l", .order = Order::Descending, .limit = 2})),
      (std::vector<Seq>{5, 4}));
}

TEST_P(LogIndexTest, MoreIsExactAtTheBorderOfAPageOfEntries) {
  Fill(*this).entries(3);
  for (const Order order : {Order::Ascending, Order::Descending}) {
    EXPECT_TRUE(ask<EntryPage>(query::ScanLog{.log = "l", .order = order, .limit = 2}).more);
    EXPECT_FALSE(ask<EntryPage>(query::ScanLog{.log = "l", .order = order, .limit = 3}).more);
    EXPECT_FALSE(ask<EntryPage>(query::ScanLog{.log = "l", .order = order, .limit = 4}).more);
    const query::ScanLog two{.log = "l", .from = 2, .to = 3, .order = order, .limit = 2};
    EXPECT_FALSE(ask<EntryPage>(two).more) << "entries outside the range do not count";
  }
  EXPECT_FALSE(ask<EntryPage>(query::ScanLog{.log = "absent"}).more);
}

TEST_P(LogIndexTest, PagesCoverTheLogOnceInBothOrders) {
  Fill(*this).entries(23);
  commit(removeRange("l", 8, 11));
  for (const std::size_t limit : {1U, 2U, 5U, 19U, 20U}) {
    std::vector<Seq> up;
    query::ScanLog query{.log = "l", .limit = limit};
    for (bool more = true; more && up.size() < kEnough;) {
      const auto page = ask<EntryPage>(query);
      ASSERT_FALSE(page.items.empty());
      for (const Seq seq : seqsOf(page)) up.push_back(seq);
      query.from = up.back() + 1;
      more = page.more;
    }
    EXPECT_EQ(up, seqs("l"));
    std::vector<Seq> down;
    query = {.log = "l", .order = Order::Descending, .limit = limit};
    for (bool more = true; more && down.size() < kEnough;) {
      const auto page = ask<EntryPage>(query);
      ASSERT_FALSE(page.items.empty());
      for (const Seq seq : seqsOf(page)) down.push_back(seq);
      query.to = down.back() - 1;
      more = page.more;
    }
    std::reverse(down.begin(), down.end());
    EXPECT_EQ(down, seqs("l"));
  }
}

// ---- by term

TEST_P(LogIndexTest, AnEntryIsFoundUnderEachOfItsTerms) {
  commit(append("l", "a", {{"kind", "order"}, {"user", "bob"}}),
         append("l", "b", {{"kind", "order"}}));
  EXPECT_THAT(under("l", "kind", "order"), ElementsAre("order#1", "order#2"));
  EXPECT_THAT(under("l", "user", "bob"), ElementsAre("bob#1"));
  EXPECT_THAT(under("l", "user", "order"), IsEmpty());
  EXPECT_THAT(under("l", "kind", "bob"), IsEmpty());
  EXPECT_THAT(under("other", "kind", "order"), IsEmpty());
}

TEST_P(LogIndexTest, AHitHasTheWholeEntry) {
  commit(append("l", "a", {{"kind", "order"}, {"user", "bob"}}, "body", "print"));
  const auto page = ask<IndexPage>(
      query::ScanIndex{.log = "l", .index = "user", .first = "bob", .last = "bob", .after = {}});
  ASSERT_EQ(page.items.size(), 1U);
  EXPECT_EQ(page.items[0].term, "bob");
  EXPECT_EQ(text(page.items[0].entry), text(*entry("l", "a")));
}

TEST_P(LogIndexTest, ComesByTermAndThenBySeq) {
  commit(append("l", "a", {{"t", "b"}}), append("l", "b", {{"t", "a"}}),
         append("l", "c", {{"t", "b"}}), append("l", "d", {{"t", "ab"}}));
  query::ScanIndex query{.log = "l", .index = "t", .first = "a", .last = "b", .after = {}};
  EXPECT_THAT(under(query), ElementsAre("a#2", "ab#4", "b#1", "b#3"));
  query.order = Order::Descending;
  EXPECT_THAT(under(query), ElementsAre("b#3", "b#1", "ab#4", "a#2"));
}

TEST_P(LogIndexTest, ARangeOfTermsHasBothEnds) {
  for (const char* term : {"a", "b", "c", "d"}) commit(append("l", term, {{"t", term}}));
  const auto between = [&](std::string first, std::string last) {
    return under({.log = "l", .index = "t", .first = first, .last = last, .after = {}});
  };
  EXPECT_THAT(between("b", "c"), ElementsAre("b#2", "c#3"));
  EXPECT_THAT(between("bb", "cc"), ElementsAre("c#3"));
  EXPECT_THAT(between("c", "b"), IsEmpty());
  EXPECT_THAT(between("", "a"), ElementsAre("a#1"));
  EXPECT_THAT(between("d", "\xff"), ElementsAre("d#4"));
}

TEST_P(LogIndexTest, AnEntryUnderSeveralOfTheTermsComesOnceForEach) {
  commit(append("l", "a", {{"t", "x"}, {"t", "y"}}), append("l", "b", {{"t", "x"}}));
  EXPECT_THAT(under({.log = "l", .index = "t", .first = "x", .last = "y", .after = {}}),
              ElementsAre("x#1", "x#2", "y#1"));
}

TEST_P(LogIndexTest, ATermGivenTwiceCountsOnce) {
  commit(append("l", "a", {{"t", "x"}, {"t", "x"}}));
  EXPECT_THAT(under("l", "t", "x"), ElementsAre("x#1"));
  commit(amend("l", "a", {{"t", "y"}, {"t", "y"}}));
  EXPECT_THAT(under("l", "t", "x"), IsEmpty());
  EXPECT_THAT(under("l", "t", "y"), ElementsAre("y#1"));
}

TEST_P(LogIndexTest, TheEmptyTermIsATerm) {
  commit(append("l", "a", {{"t", ""}}), append("l", "b", {{"t", "x"}}), append("l", "c"));
  EXPECT_THAT(under("l", "t", ""), ElementsAre("#1"));
  EXPECT_EQ(removed(removeTerm("l", "t", "")), 1U);
  EXPECT_THAT(seqs("l"), ElementsAre(2, 3));
}

TEST_P(LogIndexTest, MoreIsExactAtTheBorderOfAPageOfHits) {
  commit(append("l", "a", {{"t", "x"}}), append("l", "b", {{"t", "x"}}),
         append("l", "c", {{"t", "y"}}), append("l", "d", {{"u", "x"}}));
  for (const Order order : {Order::Ascending, Order::Descending}) {
    query::ScanIndex query{.log = "l",
                           .index = "t",
                           .first = "x",
                           .last = "y",
                           .after = {},
                           .order = order,
                           .limit = 2};
    EXPECT_TRUE(ask<IndexPage>(query).more);
    query.limit = 3;
    EXPECT_FALSE(ask<IndexPage>(query).more);
    query = {.log = "l",
             .index = "t",
             .first = "x",
             .last = "x",
             .after = {},
             .order = order,
             .limit = 2};
    EXPECT_FALSE(ask<IndexPage>(query).more) << "other terms do not count";
  }
}

TEST_P(LogIndexTest, PagesCoverTheIndexOnceInBothOrders) {
  for (int i = 1; i <= 20; ++i) {
    commit(append("l", std::to_string(i),
                  {{"t", std::string(1, static_cast<char>('a' + i % 3))}, {"t", "z"}}));
  }
  for (const Order order : {Order::Ascending, Order::Descending}) {
    query::ScanIndex all{.log = "l",
                         .index = "t",
                         .first = "a",
                         .last = "z",
                         .after = {},
                         .order = order,
                         .limit = 1000};
    const std::vector<std::string> whole = under(all);
    EXPECT_EQ(whole.size(), 40U);
    for (const std::size_t limit : {1U, 3U, 7U, 39U, 40U}) {
      std::vector<std::string> paged;
      query::ScanIndex query = all;
      query.limit = limit;
      for (bool more = true; more && paged.size() < kEnough;) {
        const auto page = ask<IndexPage>(query);
        ASSERT_FALSE(page.items.empty());
        for (const IndexHit& hit : page.items) {
          paged.push_back(hit.term + "#" + std::to_string(hit.entry.seq));
        }
        query.after = {page.items.back().term, page.items.back().entry.seq};
        more = page.more;
      }
      EXPECT_EQ(paged, whole) << limit;
    }
  }
}

TEST_P(LogIndexTest, APositionNeedNotBeThereAnyMore) {
  for (int i = 1; i <= 5; ++i) commit(append("l", std::to_string(i), {{"t", "x"}}));
  commit(remove("l", "3"));
  query::ScanIndex query{.log = "l", .index = "t", .first = "x", .last = "x", .after = {{"x", 3}}};
  EXPECT_THAT(under(query), ElementsAre("x#4", "x#5"));
  query.order = Order::Descending;
  EXPECT_THAT(under(query), ElementsAre("x#2", "x#1"));
}

TEST_P(LogIndexTest, AmendMovesTheEntryToItsNewTerms) {
  commit(append("l", "a", {{"t", "old"}, {"t", "kept"}}));
  commit(amend("l", "a", {{"t", "new"}, {"t", "kept"}}));
  EXPECT_THAT(under("l", "t", "old"), IsEmpty());
  EXPECT_THAT(under("l", "t", "kept"), ElementsAre("kept#1"));
  EXPECT_THAT(under("l", "t", "new"), ElementsAre("new#1"));
  commit(amend("l", "a", {}));
  EXPECT_THAT(under("l", "t", "kept"), IsEmpty());
  EXPECT_TRUE(entry("l", "a")->terms.empty());
}

TEST_P(LogIndexTest, RemovedEntriesLeaveTheIndex) {
  for (int i = 1; i <= 5; ++i) commit(append("l", std::to_string(i), {{"t", "x"}, {"u", "y"}}));
  commit(remove("l", "1"));
  EXPECT_THAT(under("l", "t", "x"), ElementsAre("x#2", "x#3", "x#4", "x#5"));
  commit(removeRange("l", 2, 3));
  EXPECT_THAT(under("l", "t", "x"), ElementsAre("x#4", "x#5"));
  commit(removeTerm("l", "u", "y"));
  EXPECT_THAT(under("l", "t", "x"), IsEmpty());
  EXPECT_THAT(under("l", "u", "y"), IsEmpty());
}

TEST_P(LogIndexTest, RemoveTermRemovesExactlyWhatIsFoundUnderIt) {
  commit(append("l", "a", {{"t", "x"}}), append("l", "b", {{"t", "xx"}}),
         append("l", "c", {{"u", "x"}}), append("l", "d", {{"t", "x"}, {"u", "z"}}));
  commit(append("m", "a", {{"t", "x"}}));
  EXPECT_EQ(removed(removeTerm("l", "t", "x")), 2U);
  EXPECT_THAT(seqs("l"), ElementsAre(2, 3));
  EXPECT_FALSE(entry("l", "a"));
  EXPECT_THAT(under("l", "u", "z"), IsEmpty());
  EXPECT_THAT(seqs("m"), ElementsAre(1));
  EXPECT_EQ(removed(removeTerm("l", "t", "x")), 0U);
  EXPECT_EQ(logInfo("l").last_seq, 4U);
}

TEST_P(LogIndexTest, ARemovedIdCanBeAppendedAgainAfterRemoveTerm) {
  commit(append("l", "a", {{"t", "x"}}, "old", "old print"));
  commit(removeTerm("l", "t", "x"));
  EXPECT_EQ(appended(append("l", "a", {{"t", "x"}}, "new", "new print")).seq, 2U);
  EXPECT_THAT(under("l", "t", "x"), ElementsAre("x#2"));
}

TEST_P(LogIndexTest, SeveralRemovalsAndThenAppendsGoTogether) {
  for (int i = 1; i <= 6; ++i) {
    commit(append("l", std::to_string(i), {{"parity", i % 2 == 0 ? "even" : "odd"}}));
  }
  const Applied applied = commit(removeTerm("l", "parity", "even"), removeRange("l", 1, 3),
                                 append("l", "new", {{"parity", "even"}}));
  EXPECT_EQ(applied.get<Removed>(0).count, 3U);
  EXPECT_EQ(applied.get<Removed>(1).count, 2U);
  EXPECT_THAT(seqs("l"), ElementsAre(5, 7));
  EXPECT_THAT(under("l", "parity", "even"), ElementsAre("even#7"));
}

TEST_P(LogIndexTest, TermsAreOrderedByTheirBytes) {
  const std::vector<std::string> terms = {"",     std::string("\0", 1), "A",   "Z", "a",
                                          "\x7f", "\xc3\xa9",           "\xff"};
  for (const std::string& term : terms) commit(append("l", "id" + term, {{"t", term}}));
  std::vector<std::string> found;
  const auto page = ask<IndexPage>(
      query::ScanIndex{.log = "l", .index = "t", .first = "", .last = "\xff", .after = {}});
  for (const IndexHit& hit : page.items) found.push_back(hit.term);
  EXPECT_EQ(found, terms);
}

}  // namespace
}  // namespace nimbus::store::conformance
