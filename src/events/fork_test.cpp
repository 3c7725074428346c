// Forks while others change what is copied.

#include "base/testing/manual_clock.h"
#include "events/log.h"
#include "events/sessions.h"
#include "events/states.h"
#include "events/testing/run.h"
#include "store/memory/memory_store.h"
#include "store/testing/altered_store.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace nimbus::events {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

// A store in which something happens between the reads of who uses it.
class Interrupted final : public store::AlteredStore {
 public:
  using AlteredStore::AlteredStore;

  // Called before each page of a log is read, with its number.
  std::function<void(int)> before_page;

  Task<Result<std::vector<store::Answer>>> read(store::Partition partition,
                                                std::vector<store::Query> queries) override {
    const bool is_page = std::holds_alternative<store::query::ScanLog>(queries.front());
    if (is_page && before_page) before_page(++pages_);
    return AlteredStore::read(std::move(partition), std::move(queries));
  }

 private:
  int pages_ = 0;
};

class ForkTest : public ::testing::Test {
 protected:
  ForkTest() {
    NewSession session;
    session.id = "from";
    EXPECT_TRUE(run(sessions_.create("app", "user", session)));
    for (int i = 0; i < 350; ++i) append(fmt::format("e{}", i));
  }

  // By another process: it does not wait for our turns.
  void append(const std::string& id) {
    const std::string json =
        fmt::format(R"({{"id":"{}","content":1,"state_delta":{{"last":"{}"}}}})", id, id);
    EXPECT_TRUE(run(theirs_.append(LogName{from_, ""}, *parseEvents(json), AppendOptions())));
  }
  void remove(const std::string& id) {
    EXPECT_TRUE(run(theirs_.remove(LogName{from_, ""}, id, std::nullopt)));
  }
  Result<Session> fork(std::optional<store::Seq> at_seq = {}) {
    NewSession to;
    to.id = to_.id;
    return run(sessions_.fork(from_, at_seq, to));
  }
  std::vector<std::string> ids(const SessionName& name, std::size_t count = 1000) {
    ListQuery query;
    query.limit = count;
    std::vector<std::string> ids;
    const auto page = run(theirs_.list(LogName{name, ""}, query));
    EXPECT_TRUE(page);
    for (const store::Entry& entry : page->entries) ids.push_back(entry.id);
    return ids;
  }

  const SessionName from_{"app", "user", "from"};
  const SessionName to_{"app", "user", "to"};
  ManualClock clock_;
  store::memory::MemoryStore store_{clock_};
  Interrupted interrupted_{store_};
  SeededRandom random_{1};
  Turns turns_;
  Turns their_turns_;
  Log theirs_{store_, random_, their_turns_};
  Sessions sessions_{interrupted_, random_, turns_};
};

TEST_F(ForkTest, WhatIsAppendedMeanwhileIsNotInIt) {
  const std::vector<std::string> before = ids(from_);
  int pages = 0;
  interrupted_.before_page = [&](int page) {
    pages = page;
    append(fmt::format("late{}", page));
  };
  const auto forked = fork();
  ASSERT_TRUE(forked) << forked.error().message();
  EXPECT_EQ(pages, 4) << "appends do not make it begin anew";
  EXPECT_EQ(ids(to_), before);
  EXPECT_THAT(*run(readState(store_, to_.partition())), ElementsAre(Pair("last", "\"e349\"")))
      << "the state of the same moment";
}

TEST_F(ForkTest, ItBeginsAnewIfEventsAreRemovedMeanwhile) {
  interrupted_.before_page = [&](int page) {
    if (page > 3) return;
    remove(fmt::format("e{}", page));  // on the first page, which may be copied already
    remove(fmt::format("e{}", 300 + page));
    append(fmt::format("late{}", page));
  };
  ASSERT_TRUE(fork());
  EXPECT_EQ(ids(to_), ids(from_));
  EXPECT_THAT(*run(readState(store_, to_.partition())), ElementsAre(Pair("last", "\"late3\"")));
}

TEST_F(ForkTest, ASourceThatIsAlwaysEditedIsNotCopiedWrong) {
  interrupted_.before_page = [&](int page) {
    if (page % 4 == 0) remove(fmt::format("e{}", page));
  };
  EXPECT_EQ(fork().error().code(), Code::Unavailable);
  interrupted_.before_page = nullptr;
  EXPECT_TRUE(fork()) << "nothing is left in the way";
  EXPECT_EQ(ids(to_), ids(from_));
}

TEST_F(ForkTest, ASessionThatIsMadeMeanwhileUnderTheNameStays) {
  Sessions theirs(store_, random_, their_turns_);
  interrupted_.before_page = [&](int page) {
    if (page != 2) return;
    NewSession session;
    session.id = to_.id;
    ASSERT_TRUE(run(theirs.create("app", "user", session)));
    ASSERT_TRUE(run(theirs_.append(LogName{to_, ""}, *parseEvents(R"({"id":"own","content":1})"),
                                   AppendOptions())));
  };
  EXPECT_EQ(fork().error().code(), Code::Conflict);
  EXPECT_THAT(ids(to_), ElementsAre("own"));
}

TEST_F(ForkTest, ASourceThatIsDeletedMeanwhileIsNotCopied) {
  Sessions theirs(store_, random_, their_turns_);
  interrupted_.before_page = [&](int page) {
    if (page == 2) ASSERT_TRUE(run(theirs.remove(from_)));
  };
  EXPECT_EQ(fork().error().code(), Code::NotFound);
  EXPECT_EQ(run(sessions_.get(to_)).error().code(), Code::NotFound);
}

TEST_F(ForkTest, UpToASeq) {
  ASSERT_TRUE(fork(2));
  EXPECT_THAT(ids(to_), ElementsAre("e0", "e1"));
}

}  // namespace
}  // namespace nimbus::events
