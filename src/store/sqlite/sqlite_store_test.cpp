#include "store/sqlite/sqlite_store.h"

#include "base/testing/manual_clock.h"
#include "base/testing/temporary_directory.h"
#include "store/sqlite/bytes.h"
#include "store/sqlite/schema.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <future>
#include <iterator>

namespace nimbus::store::sqlite {
namespace {

namespace asio = boost::asio;

using namespace std::chrono_literals;
using ::testing::HasSubstr;
using ::testing::Not;

// Shows a test the moment at which somebody asks for the time.
class ObservedClock final : public Clock {
 public:
  Timestamp now() const override {
    if (asked) asked();
    return clock_.now();
  }

  std::function<void()> asked;

 private:
  ManualClock clock_;
};

// What all backends have in common is in tests/conformance; here is what only a file has.
class SqliteStoreTest : public ::testing::Test {
 protected:
  Options options() const {
    Options options;
    options.path = directory_.path() / "nimbus.db";
    options.writer.journal.max_bytes = std::size_t{4} << 20U;
    return options;
  }
  // For what happens when time is up.
  Options impatient() const {
    Options options = this->options();
    options.open_timeout = 50ms;
    options.writer.turn_timeout = 100ms;
    options.writer.turn_retry_timeout = 10ms;
    return options;
  }
  std::unique_ptr<SqliteStore> open(const Options& options) {
    auto opened = SqliteStore::open(options, clock_);
    EXPECT_TRUE(opened);
    return *std::move(opened);
  }
  Result<std::unique_ptr<SqliteStore>> open() { return SqliteStore::open(options(), clock_); }

  // What another process has at its turn.
  Turnstile turnstile() { return *Turnstile::open(directory_.path() / "nimbus.db-turnstile"); }

  Connection foreignTool() {
    return *Connection::open(options().path, Connection::Mode::ReadWrite);
  }

  // A statement by somebody who is not us.
  void tamper(const char* sql) {
    auto connection = Connection::open(options().path, Connection::Mode::ReadWrite);
    ASSERT_TRUE(connection);
    ASSERT_TRUE(connection->execute(sql));
  }

  // Whether anybody, in whatever process, is in the turnstile.
  bool isTurnstileTaken() const {
    const int file = ::open((options().path.string() + "-turnstile").c_str(), O_RDWR | O_CLOEXEC);
    struct ::flock lock {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    EXPECT_EQ(::fcntl(file, F_OFD_GETLK, &lock), 0);
    ::close(file);
    return lock.l_type != F_UNLCK;
  }

  Result<> put(SqliteStore& store, std::string key, std::string value = "v") {
    auto pending =
        store.commit(partition_, std::nullopt, putting(std::move(key), std::move(value)));
    return finish(pending.durable());
  }
  std::optional<Record> get(SqliteStore& store, std::string key) {
    return *finish(getRecord(store, partition_, "s", std::move(key)));
  }

  template <typename T>
  T finish(Task<T> task) {
    asio::io_context io(1);
    auto result = asio::co_spawn(io, std::move(task), asio::use_future);
    io.run();
    return result.get();
  }

  static Batch putting(std::string key, std::string value) {
    Batch batch;
    batch.operations.emplace_back(op::Put{.space = "s",
                                          .key = std::move(key),
                                          .value = std::move(value),
                                          .expiry = {},
                                          .expected = {}});
    return batch;
  }

  ManualClock clock_;
  TemporaryDirectory directory_;
  const Partition partition_{"test", {"p"}};
};

TEST_F(SqliteStoreTest, SaysWhatADurableCommitSurvives) {
  EXPECT_EQ((*open())->describe().durability, Durability::Disk);
  Options relaxed = options();
  relaxed.synchronous = Synchronous::Normal;
  EXPECT_EQ((*SqliteStore::open(relaxed, clock_))->describe().durability, Durability::Memory);
}

TEST_F(SqliteStoreTest, ADataDirectoryThatIsNotThereIsNamed) {
  Options elsewhere;
  elsewhere.path = directory_.path() / "missing" / "nimbus.db";
  const auto opened = SqliteStore::open(elsewhere, clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::InvalidArgument);
  EXPECT_THAT(opened.error().message(), HasSubstr("missing"));
}

TEST_F(SqliteStoreTest, DataOfANewerVersionIsRefusedAndLeftAlone) {
  ASSERT_TRUE(open());
  tamper("PRAGMA user_version=99");
  const auto opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::Unprocessable);
  EXPECT_THAT(opened.error().message(), HasSubstr("newer"));
  tamper("PRAGMA user_version=2");
  EXPECT_TRUE(open());
}

TEST_F(SqliteStoreTest, ADatabaseOfAnotherProgramIsRefused) {
  tamper("CREATE TABLE theirs(x)");
  const auto opened = open();
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::Unprocessable);
  EXPECT_THAT(opened.error().message(), HasSubstr("another program"));
}

TEST_F(SqliteStoreTest, AFileThatIsNoDatabaseIsRefusedAndLeftAlone) {
  const std::string text = "not a database, but long enough to be read as the header of one";
  std::ofstream(options().path) << text;
  EXPECT_FALSE(open());
  std::ifstream file(options().path);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), text);
}

TEST_F(SqliteStoreTest, ManyStoresMayOpenTheFileAtOnce) {
  std::vector<std::future<bool>> opened;
  for (int i = 0; i < 8; ++i) {
    opened.push_back(std::async(std::launch::async, [this] { return open().has_value(); }));
  }
  for (auto& result : opened) EXPECT_TRUE(result.get());
}

TEST_F(SqliteStoreTest, CommitsThatPileUpShareATransaction) {
  auto store = *open();
  std::vector<PendingCommit> pending;
  for (int i = 0; i < 1000; ++i) {
    pending.push_back(store->commit(partition_, std::nullopt, putting(std::to_string(i), "v")));
  }
  for (PendingCommit& commit : pending) EXPECT_TRUE(finish(commit.durable()));
  const WriterStatistics statistics = store->statistics();
  EXPECT_EQ(statistics.commits, 1000U);
  EXPECT_LT(statistics.transactions, 500U);
}

TEST_F(SqliteStoreTest, CommitsThatWereBegunAreFinishedBeforeItCloses) {
  std::vector<PendingCommit> pending;
  {
    auto store = *open();
    for (int i = 0; i < 100; ++i) {
      pending.push_back(store->commit(partition_, std::nullopt, putting(std::to_string(i), "v")));
    }
  }
  for (PendingCommit& commit : pending) EXPECT_TRUE(finish(commit.durable()));
  auto store = *open();
  const auto usage = finish(ask<Usage>(*store, partition_, query::GetUsage{"s"}));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->records, 100U);
}

TEST_F(SqliteStoreTest, TheLogIsCopiedBackBeforeItGrowsWithoutEnd) {
  Options small = options();
  small.synchronous = Synchronous::Off;
  small.writer.checkpoint_after_frames = 50;
  auto store = *SqliteStore::open(small, clock_);
  for (int i = 0; i < 2000; ++i) {
    auto pending = store->commit(partition_, std::nullopt, putting("k", std::string(3000, 'x')));
    ASSERT_TRUE(finish(pending.durable()));
  }
  EXPECT_GT(store->statistics().checkpoints, 10U);
  EXPECT_LT(std::filesystem::file_size(directory_.path() / "nimbus.db-wal"), 2U << 20U);
}

TEST_F(SqliteStoreTest, AChangeByAnotherProcessIsNoticed) {
  auto ours = *open();
  auto theirs = *open();
  std::promise<void> changed;
  std::atomic_flag once;
  const auto watch = ours->watch(partition_, [&] {
    if (!once.test_and_set()) changed.set_value();
  });
  auto pending = theirs->commit(partition_, std::nullopt, putting("k", "v"));
  ASSERT_TRUE(finish(pending.durable()));
  EXPECT_EQ(changed.get_future().wait_for(std::chrono::seconds(10)), std::future_status::ready);
}

// ---- rows that are not in their table yet

TEST_F(SqliteStoreTest, ARowThatIsWrittenAgainAndAgainIsNotWrittenToItsTable) {
  auto store = *open();
  ASSERT_TRUE(put(*store, "k", "first"));  // makes the record, and all that is known of it
  auto tool = foreignTool();
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(put(*store, "k", std::to_string(i)));
  EXPECT_GT(*tool.integer("SELECT count(*) FROM journal"), 50);
  EXPECT_EQ(*tool.text("SELECT value FROM record WHERE key>x''"), "first");
  EXPECT_EQ(get(*store, "k")->value, "99") << "whoever asks the store sees what was committed";
}

TEST_F(SqliteStoreTest, AClosedFileHasEveryRowInItsTable) {
  {
    auto store = *open();
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(*store, "k", std::to_string(i)));
  }
  EXPECT_EQ(*foreignTool().text("SELECT value FROM record WHERE key>x''"), "9");
}

TEST_F(SqliteStoreTest, DeferredRowsAreThereAfterACrash) {
  const auto crashed = directory_.path() / "crashed";
  std::filesystem::create_directory(crashed);
  auto store = *open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(*store, "k", std::to_string(i)));
  ASSERT_TRUE(get(*store, "k"));  // which settles it
  for (int i = 10; i < 20; ++i) ASSERT_TRUE(put(*store, "k", std::to_string(i)));
  // What a crash leaves is what is in the files.
  for (const char* name : {"nimbus.db", "nimbus.db-wal"}) {
    std::filesystem::copy_file(directory_.path() / name, crashed / name);
  }
  Options options;
  options.path = crashed / "nimbus.db";
  auto recovered = open(options);
  EXPECT_EQ(get(*recovered, "k")->value, "19");
  EXPECT_EQ(get(*recovered, "k")->version, get(*store, "k")->version);
}

TEST_F(SqliteStoreTest, WhatOneProcessDefersAnotherReadsAndWrites) {
  auto ours = *open();
  auto theirs = *open();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(*ours, "k", std::to_string(i)));
  EXPECT_EQ(get(*theirs, "k")->value, "9");
  for (int i = 10; i < 20; ++i) ASSERT_TRUE(put(*ours, "k", std::to_string(i)));
  ASSERT_TRUE(put(*theirs, "other"));
  EXPECT_EQ(get(*theirs, "k")->value, "19");
  EXPECT_EQ(get(*ours, "k")->value, "19");
  ASSERT_TRUE(put(*theirs, "k", "theirs"));
  EXPECT_EQ(get(*ours, "k")->value, "theirs");
}

TEST_F(SqliteStoreTest, DeferredRowsCanBeReadWhileNothingCanBeWritten) {
  auto ours = open(impatient());
  auto theirs = open(impatient());
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(put(*ours, "k", std::to_string(i)));
  ASSERT_TRUE(put(*ours, "other", "v"));
  Turnstile frozen = turnstile();
  auto pass = frozen.enter(0ms);
  ASSERT_TRUE(pass);
  for (SqliteStore* const store : {ours.get(), theirs.get()}) {
    EXPECT_EQ(get(*store, "k")->value, "9");
    EXPECT_EQ(finish(ask<Usage>(*store, partition_, query::GetUsage{"s"}))->records, 2U);
  }
  pass.reset();
  ASSERT_TRUE(put(*ours, "k", "10"));
  EXPECT_EQ(get(*theirs, "k")->value, "10");
}

TEST_F(SqliteStoreTest, TheJournalDoesNotGrowWithoutEnd) {
  Options small = options();
  small.synchronous = Synchronous::Off;
  small.writer.journal.max_bytes = 10'000;
  auto store = open(small);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(put(*store, std::to_string(i % 20), std::to_string(i)));
  }
  auto tool = foreignTool();
  EXPECT_LE(*tool.integer("SELECT sum(length(entries)) FROM journal"), 10'000);
  for (int i = 980; i < 1000; ++i) {
    EXPECT_EQ(get(*store, std::to_string(i % 20))->value, std::to_string(i));
  }
}

// ---- others who do not let go

TEST_F(SqliteStoreTest, ALockHeldByAForeignToolIsUnavailableAndNotApplied) {
  auto store = open(impatient());
  auto tool = foreignTool();
  ASSERT_TRUE(tool.execute("BEGIN IMMEDIATE"));
  const auto durable = put(*store, "k");
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error().code(), Code::Unavailable);
  EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);
  ASSERT_TRUE(tool.execute("ROLLBACK"));
  EXPECT_TRUE(put(*store, "k"));
}

TEST_F(SqliteStoreTest, AProcessThatKeepsItsTurnMakesCommitsUnavailableUntilItLetsGo) {
  auto store = open(impatient());
  Turnstile theirs = turnstile();
  auto pass = theirs.enter(0ms);
  ASSERT_TRUE(pass);
  std::vector<PendingCommit> pending;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(store->commit(partition_, std::nullopt, putting("k", "v")));
  }
  for (PendingCommit& commit : pending) {
    const auto durable = finish(commit.durable());
    ASSERT_FALSE(durable);
    EXPECT_EQ(durable.error().code(), Code::Unavailable);
    EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);
    EXPECT_THAT(durable.error().message(), HasSubstr("another process"));
  }
  EXPECT_EQ(finish(store->check()).error().code(), Code::Unavailable);
  EXPECT_EQ(get(*store, "k"), std::nullopt) << "reads go on, and nothing was applied";
  pass.reset();
  EXPECT_TRUE(finish(store->check()));
  EXPECT_TRUE(put(*store, "k"));
}

TEST_F(SqliteStoreTest, WhoeverComesWhileATurnIsWaitedForDoesNotWaitForAnother) {
  Options options = impatient();
  options.writer.turn_timeout = 1s;
  options.writer.turn_retry_timeout = 1min;
  options.writer.max_tasks_per_transaction = 1;
  auto store = open(options);
  Turnstile theirs = turnstile();
  const auto pass = theirs.enter(0ms);
  const auto start = std::chrono::steady_clock::now();
  auto first = store->commit(partition_, std::nullopt, putting("k", "v"));
  auto second = store->commit(partition_, std::nullopt, putting("k", "v"));
  EXPECT_FALSE(finish(first.durable()));
  EXPECT_FALSE(finish(second.durable()));
  EXPECT_LT(std::chrono::steady_clock::now() - start, 30s);
}

TEST_F(SqliteStoreTest, NoMoreCommitsWaitThanAllowed) {
  Options options = this->options();
  options.writer.max_waiting_tasks = 3;
  auto store = open(options);
  Turnstile theirs = turnstile();
  auto pass = theirs.enter(0ms);
  std::vector<PendingCommit> pending;
  for (int i = 0; i < 100; ++i) {
    pending.push_back(store->commit(partition_, std::nullopt, putting("k", "v")));
  }
  pass.reset();
  int refused = 0;
  for (PendingCommit& commit : pending) {
    const auto durable = finish(commit.durable());
    if (durable) continue;
    ++refused;
    EXPECT_EQ(durable.error().code(), Code::Unavailable);
    EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);
  }
  // Three wait, and as many at most were taken before.
  EXPECT_GE(refused, 94);
  EXPECT_LT(refused, 100);
}

TEST_F(SqliteStoreTest, OpeningGivesUpWhenAnotherProcessDoesNotLetGo) {
  ASSERT_TRUE(open());
  Turnstile theirs = turnstile();
  auto pass = theirs.enter(0ms);
  const auto opened = SqliteStore::open(impatient(), clock_);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code(), Code::Unavailable);
  EXPECT_THAT(opened.error().message(), HasSubstr("fuser"));
  pass.reset();
  EXPECT_TRUE(SqliteStore::open(impatient(), clock_));
}

TEST_F(SqliteStoreTest, AReaderThatStaysDelaysNobodyAndIsComplainedOfOnce) {
  Options small = options();
  small.synchronous = Synchronous::Off;
  small.writer.checkpoint_after_frames = 20;
  small.writer.truncate_after_frames = 40;
  small.writer.truncate_every = 0ms;
  small.writer.truncate_patience = 1ms;
  auto store = open(small);
  ASSERT_TRUE(put(*store, "k"));
  auto reader = foreignTool();
  ASSERT_TRUE(reader.execute("BEGIN"));
  ASSERT_EQ(*reader.integer("SELECT count(*) FROM record"), 2);

  ::testing::internal::CaptureStderr();
  constexpr int kCommits = 300;
  for (int i = 0; i < kCommits; ++i) ASSERT_TRUE(put(*store, "k", std::string(3000, 'x')));
  const std::string said = ::testing::internal::GetCapturedStderr();
  const auto first = said.find("reading the database for long");
  EXPECT_NE(first, std::string::npos);
  EXPECT_EQ(said.find("reading the database for long", first + 1), std::string::npos);
  EXPECT_LT(store->statistics().checkpoints, kCommits) << "not one after every transaction";
  EXPECT_GT(store->statistics().wal_frames, 40U);

  ASSERT_TRUE(reader.execute("END"));
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(put(*store, "k", std::string(3000, 'x')));
  EXPECT_LT(store->statistics().wal_frames, 40U) << "it has started anew";
}

TEST_F(SqliteStoreTest, AReaderThatStaysIsWaitedForOnlyNowAndThen) {
  Options small = options();
  small.synchronous = Synchronous::Off;
  small.writer.checkpoint_after_frames = 20;
  small.writer.truncate_after_frames = 20;
  small.writer.truncate_every = 1h;
  small.writer.truncate_patience = 200ms;
  auto store = open(small);
  ASSERT_TRUE(put(*store, "k"));
  auto reader = foreignTool();
  ASSERT_TRUE(reader.execute("BEGIN"));
  ASSERT_EQ(*reader.integer("SELECT count(*) FROM record"), 2);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(put(*store, "k", std::string(3000, 'x')));
  ASSERT_GT(store->statistics().checkpoints, 50U);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 50 * 200ms);
}

TEST_F(SqliteStoreTest, TheTimeOfATransactionIsTakenWhereNoOtherWriterIs) {
  // Taken any earlier, it would be from before the transactions that this one had to wait for.
  ObservedClock clock;
  auto store = *SqliteStore::open(options(), clock);
  auto tool = *Connection::open(options().path, Connection::Mode::ReadWrite);
  ASSERT_TRUE(tool.execute("PRAGMA busy_timeout=0"));
  int times = 0;
  clock.asked = [&] {
    ++times;
    EXPECT_TRUE(isTurnstileTaken());
    EXPECT_FALSE(tool.execute("BEGIN IMMEDIATE; ROLLBACK"));
  };
  auto pending = store->commit(partition_, std::nullopt, putting("k", "v"));
  EXPECT_TRUE(finish(pending.durable()));
  EXPECT_EQ(times, 1);
}

TEST_F(SqliteStoreTest, ATransactionThatFailsIsTakenBackAndTheNextOneWorks) {
  auto store = *open();
  // Fails the statement, and leaves it to us to end the transaction that it is in.
  tamper(
      "CREATE TRIGGER failing BEFORE INSERT ON record WHEN NEW.key = CAST('bad' AS BLOB)"
      " BEGIN SELECT RAISE(ABORT, 'no'); END");
  Batch batch = putting("first", "v");
  batch.operations.push_back(putting("bad", "v").operations[0]);
  auto pending = store->commit(partition_, std::nullopt, std::move(batch));
  const auto durable = finish(pending.durable());
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);

  auto next = store->commit(partition_, std::nullopt, putting("next", "v"));
  EXPECT_TRUE(finish(next.durable()));
  const auto usage = finish(ask<Usage>(*store, partition_, query::GetUsage{"s"}));
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->records, 1U);
}

TEST_F(SqliteStoreTest, TheTotalsOfASpaceAreThoseOfItsRows) {
  // No answer tells: totals that are too high only cost a count of the rows where a quota is near.
  auto store = *open();
  auto tool = *Connection::open(options().path, Connection::Mode::ReadWrite);
  const auto expectTotals = [&](std::uint64_t records, std::uint64_t bytes) {
    get(*store, "a");  // brings what is deferred to its table
    const std::string header = *tool.text("SELECT value FROM record WHERE key = x''");
    Bytes totals(header);
    EXPECT_EQ(totals.takeNumber(), records);
    EXPECT_EQ(totals.takeNumber(), bytes);
    EXPECT_EQ(*tool.integer("SELECT count(*) FROM record WHERE key > x''"),
              static_cast<std::int64_t>(records));
  };
  const auto commit = [&](Operation operation) {
    Batch batch;
    batch.operations.push_back(std::move(operation));
    auto pending = store->commit(partition_, std::nullopt, std::move(batch));
    EXPECT_TRUE(finish(pending.durable()));
  };
  const auto put = [&](std::string key, std::string value, std::optional<Timestamp> expires_at) {
    commit(op::Put{.space = "s",
                   .key = std::move(key),
                   .value = std::move(value),
                   .expiry = {.at = expires_at},
                   .expected = {}});
  };
  put("a", "12345", std::nullopt);
  put("b", "123", std::nullopt);
  put("c", "1234", clock_.now() + Millis(1));
  expectTotals(3, 12);
  put("a", "1", std::nullopt);
  expectTotals(3, 8);
  commit(op::Erase{.space = "s", .key = "b", .expected = {}});
  expectTotals(2, 5);
  clock_.advance(std::chrono::hours(1));
  EXPECT_EQ(finish(store->sweep(Millis(1000)))->removed, 1U);
  expectTotals(1, 1);
  commit(op::Erase{.space = "s", .key = "never", .expected = {}, .last = 20});
  expectTotals(1, 1);
  commit(op::EraseSpace{"s"});
  expectTotals(0, 0);
  commit(op::EraseSpace{.space = "s", .last = 30});
  expectTotals(0, 0);
}

// ---- whether it can be written

TEST_F(SqliteStoreTest, ACheckWritesUnlessSomethingElseWasWrittenJustNow) {
  Options options = this->options();
  options.writer.heartbeat_every = 1h;
  auto store = open(options);
  auto tool = foreignTool();
  const auto version = [&] { return *tool.integer("PRAGMA data_version"); };
  const auto at_first = version();
  ASSERT_TRUE(finish(store->check()));
  EXPECT_NE(version(), at_first) << "nothing was ever written: nothing else would be proof";
  const auto proved = version();
  ASSERT_TRUE(finish(store->check()));
  EXPECT_EQ(version(), proved);
  store.reset();

  options.writer.heartbeat_every = 0ms;
  store = open(options);
  ASSERT_TRUE(put(*store, "k"));
  const auto written = version();
  ASSERT_TRUE(finish(store->check()));
  EXPECT_NE(version(), written);
}

TEST_F(SqliteStoreTest, StatisticsCountCommitsThatBecameDurableAndNothingElse) {
  Options options = impatient();
  options.writer.heartbeat_every = 0ms;
  auto store = open(options);
  ASSERT_TRUE(put(*store, "k"));
  ASSERT_TRUE(finish(store->check()));
  ASSERT_TRUE(finish(store->sweep(0ms)));
  Batch refused = putting("k", "v");
  std::get<op::Put>(refused.operations.front()).expected = 99;
  auto pending = store->commit(partition_, std::nullopt, std::move(refused));
  ASSERT_FALSE(finish(pending.durable()));
  auto tool = foreignTool();
  ASSERT_TRUE(tool.execute("BEGIN IMMEDIATE"));
  ASSERT_FALSE(put(*store, "k"));
  const WriterStatistics statistics = store->statistics();
  EXPECT_EQ(statistics.commits, 1U);
  EXPECT_EQ(statistics.transactions, 1U);
  EXPECT_EQ(statistics.failed_transactions, 1U);
}

// ---- time

TEST_F(SqliteStoreTest, TimeStandsStillWhenTheClockIsSetBack) {
  auto store = *open();
  const Timestamp start = clock_.now();
  Batch expiring = putting("gone", "v");
  std::get<op::Put>(expiring.operations.front()).expiry = {.at = start + 1s};
  auto pending = store->commit(partition_, std::nullopt, std::move(expiring));
  ASSERT_TRUE(finish(pending.durable()));
  clock_.advance(1s);
  ASSERT_EQ(get(*store, "gone"), std::nullopt);

  clock_.advance(-1h);
  EXPECT_EQ(get(*store, "gone"), std::nullopt) << "what has expired stays expired";
  EXPECT_EQ(store->now(), start + 1s);
  ASSERT_TRUE(put(*store, "k"));
  EXPECT_EQ(get(*store, "k")->updated_at, start + 1s);
  clock_.advance(2h);
  ASSERT_TRUE(put(*store, "k"));
  EXPECT_EQ(get(*store, "k")->updated_at, start + 1s + 1h);
}

// ---- errors

TEST_F(SqliteStoreTest, CallersAreNotShownSql) {
  auto store = *open();
  ASSERT_TRUE(put(*store, "k"));
  tamper("DROP TABLE directory");
  const auto page = finish(store->readDirectory("d", "", "", 10));
  ASSERT_FALSE(page);
  EXPECT_EQ(page.error().code(), Code::Internal);
  EXPECT_THAT(page.error().message(), Not(HasSubstr("directory")));
  EXPECT_TRUE(page.error().fields().empty());

  Batch listing = putting("k", "v");
  listing.listings.push_back({.directory = "d", .key = "k", .value = "v"});
  auto pending = store->commit(partition_, std::nullopt, std::move(listing));
  const auto durable = finish(pending.durable());
  ASSERT_FALSE(durable);
  EXPECT_THAT(durable.error().message(), Not(HasSubstr("directory")));
}

// Many records, in a file whose pages behind the first ones are garbage.
class DamagedFileTest : public SqliteStoreTest {
 protected:
  static constexpr int kRecords = 500;

  void SetUp() override {
    fill();
    {
      auto connection = foreignTool();
      // A connection that has read nothing yet does not know that there is a WAL.
      ASSERT_EQ(*connection.integer("SELECT count(*) FROM record"), kRecords + 1);
      ASSERT_TRUE(connection.checkpoint(Connection::Checkpoint::Truncate));
    }
    std::fstream file(options().path, std::ios::in | std::ios::out | std::ios::binary);
    const auto size = std::filesystem::file_size(options().path);
    const std::string garbage(4096, '\xAB');
    for (std::uintmax_t at = 16U * 4096U; at + 4096 <= size; at += 4096) {
      file.seekp(static_cast<std::streamoff>(at));
      file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
    }
  }

 private:
  void fill() {
    auto store = *open();
    for (int i = 0; i < kRecords; ++i) {
      ASSERT_TRUE(put(*store, std::to_string(i), std::string(500, 'x')));
    }
  }
};

TEST_F(DamagedFileTest, AWriteStopsTheProcessRatherThanLie) {
  EXPECT_EXIT(
      {
        auto store = *open();
        for (int i = 0; i < kRecords; ++i) static_cast<void>(put(*store, std::to_string(i)));
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(74), "cannot be trusted");
}

TEST_F(DamagedFileTest, AReadStopsTheProcessRatherThanLie) {
  EXPECT_EXIT(
      {
        auto store = *open();
        for (int i = 0; i < kRecords; ++i) {
          static_cast<void>(finish(getRecord(*store, partition_, "s", std::to_string(i))));
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(74), "cannot be trusted");
}

}  // namespace
}  // namespace nimbus::store::sqlite
