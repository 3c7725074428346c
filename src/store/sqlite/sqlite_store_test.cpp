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

using ::testing::HasSubstr;

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
    return options;
  }
  Result<std::unique_ptr<SqliteStore>> open() { return SqliteStore::open(options(), clock_); }

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
  tamper("PRAGMA user_version=1");
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
  pending.reserve(1000);
  for (int i = 0; i < 1000; ++i) {
    pending.push_back(store->commit(partition_, std::nullopt, putting(std::to_string(i), "v")));
  }
  for (PendingCommit& commit : pending) EXPECT_TRUE(finish(commit.durable()));
  const WriterStatistics statistics = store->statistics();
  EXPECT_EQ(statistics.tasks, 1000U);
  EXPECT_LT(statistics.transactions, 500U);
}

TEST_F(SqliteStoreTest, CommitsThatWereBegunAreFinishedBeforeItCloses) {
  std::vector<PendingCommit> pending;
  pending.reserve(100);
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

TEST_F(SqliteStoreTest, ALockHeldByAForeignToolIsUnavailableAndNotApplied) {
  auto store = *open();
  auto tool = *Connection::open(options().path, Connection::Mode::ReadWrite);
  ASSERT_TRUE(tool.execute("BEGIN IMMEDIATE"));
  auto pending = store->commit(partition_, std::nullopt, putting("k", "v"));
  const auto durable = finish(pending.durable());
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error().code(), Code::Unavailable);
  EXPECT_EQ(durable.error().outcome(), Outcome::NotApplied);
  ASSERT_TRUE(tool.execute("ROLLBACK"));

  auto again = store->commit(partition_, std::nullopt, putting("k", "v"));
  EXPECT_TRUE(finish(again.durable()));
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
  EXPECT_EQ(*finish(store->sweep(Millis(1000))), 1U);
  expectTotals(1, 1);
  commit(op::EraseSpace{"s"});
  expectTotals(0, 0);
}

TEST_F(SqliteStoreTest, ADamagedPageStopsTheProcessRatherThanLie) {
  {
    auto store = *open();
    for (int i = 0; i < 500; ++i) {
      auto pending = store->commit(partition_, std::nullopt,
                                   putting(std::to_string(i), std::string(500, 'x')));
      ASSERT_TRUE(finish(pending.durable()));
    }
  }
  {
    auto connection = *Connection::open(options().path, Connection::Mode::ReadWrite);
    // A connection that has read nothing yet does not know that there is a WAL.
    ASSERT_EQ(*connection.integer("SELECT count(*) FROM record"), 501);
    ASSERT_TRUE(connection.checkpoint(Connection::Checkpoint::Truncate));
  }
  // Everything behind the first pages, where the records are.
  std::fstream file(options().path, std::ios::in | std::ios::out | std::ios::binary);
  const auto size = std::filesystem::file_size(options().path);
  const std::string garbage(4096, '\xAB');
  for (std::uintmax_t at = 16U * 4096U; at + 4096 <= size; at += 4096) {
    file.seekp(static_cast<std::streamoff>(at));
    file.write(garbage.data(), static_cast<std::streamsize>(garbage.size()));
  }
  file.close();
  EXPECT_EXIT(
      {
        auto store = *open();
        for (int i = 0; i < 500; ++i) {
          auto pending = store->commit(partition_, std::nullopt, putting(std::to_string(i), "y"));
          static_cast<void>(finish(pending.durable()));
        }
        std::_Exit(0);
      },
      ::testing::ExitedWithCode(74), "cannot be trusted");
}

}  // namespace
}  // namespace nimbus::store::sqlite
