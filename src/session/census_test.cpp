#include "session/census.h"

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "session/session_record.h"
#include "state/stored.h"
#include "store/memory/memory_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <future>
#include <string>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;

TEST(KeptTest, NothingIsKnownBeforeTheFirstCount) {
  Kept kept;
  kept.change("a", {1, 10});
  EXPECT_EQ(kept.totals(), std::nullopt);
  kept.beginCount();
  EXPECT_EQ(kept.totals(), std::nullopt);
  kept.endCount(5);
  EXPECT_EQ(kept.totals(), (KeptTotals{0, 5}));
}

TEST(KeptTest, ChangesCountOnTopOfWhatWasCounted) {
  Kept kept;
  kept.beginCount();
  kept.counted("m", {3, 30});
  kept.endCount(0);
  kept.change("a", {1, 7});
  kept.change("b", {-1, -10});
  EXPECT_EQ(kept.totals(), (KeptTotals{3, 27}));
}

TEST(KeptTest, AChangeDuringACountIsCountedOnce) {
  Kept kept;
  kept.beginCount();
  kept.counted("m", {3, 30});
  kept.change("a", {1, 7});    // was counted before it changed
  kept.change("z", {1, 100});  // the count will come to it
  kept.counted("z", {1, 100});
  kept.endCount(0);
  EXPECT_EQ(kept.totals(), (KeptTotals{5, 137}));
}

TEST(KeptTest, ACountThatComesToNothingLeavesWhatWasKnown) {
  Kept kept;
  kept.beginCount();
  kept.counted("m", {3, 30});
  kept.endCount(0);
  kept.beginCount();
  kept.counted("c", {1, 1});
  kept.change("a", {1, 7});
  kept.abandonCount();
  EXPECT_EQ(kept.totals(), (KeptTotals{4, 37}));
}

TEST(KeptTest, WhatCannotBeIsNotShown) {
  Kept kept;
  kept.beginCount();
  kept.endCount(0);
  kept.change("a", {-1, -7});
  EXPECT_EQ(kept.totals(), (KeptTotals{0, 0}));
}

class CensusTest : public ::testing::Test {
 protected:
  // A session of "cart" with one value of that many bytes.
  void addSession(const std::string& key, std::size_t bytes, std::optional<Millis> timeout) {
    SessionRecord record;
    record.created_at = record.last_access = store_.now();
    record.timeout = timeout;
    store::Batch batch;
    put(batch, kSessionSpace, kSessionRecord, record.toJson(), {});
    put(batch, state::kSpace, "value", std::string(bytes, '1'), {});
    batch.listings.push_back({sessionDirectory("cart"), key, ""});
    commit(sessionPartition("cart", key), std::move(batch));
  }
  static void put(store::Batch& batch, const char* space, const char* key, std::string value,
                  store::Expiry expiry) {
    store::op::Put put;
    put.space = space;
    put.key = key;
    put.value = std::move(value);
    put.expiry = expiry;
    batch.operations.emplace_back(std::move(put));
  }
  void commit(store::Partition partition, store::Batch batch) {
    store::PendingCommit pending =
        store_.commit(std::move(partition), std::nullopt, std::move(batch));
    ASSERT_TRUE(run(pending.durable()));
  }
  template <typename T>
  T run(Task<T> task) {
    io_.restart();
    auto result = asio::co_spawn(io_, std::move(task), asio::use_future);
    while (result.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
    return result.get();
  }

  asio::io_context io_{1};
  ManualClock clock_;
  ManualSteadyClock steady_clock_;
  store::memory::MemoryStore store_{clock_};
  FunctionMetricsTable table_;
  Census census_{store_, steady_clock_, table_, io_.get_executor(), {}};
};

TEST_F(CensusTest, CountsSessionsAndTheBytesOfTheirState) {
  // More than a page of them.
  for (int i = 0; i < 250; ++i) addSession("user-" + std::to_string(i), 10, std::nullopt);
  store::Batch shared;
  put(shared, state::kSpace, "all", "12345", {});
  commit(functionStatePartition("cart"), std::move(shared));
  const auto cart = table_.of("cart");
  ASSERT_TRUE(run(census_.count("cart", cart)));
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{250, 2505}));
}

TEST_F(CensusTest, SessionsThatAreOverAreNoneButTheirStateIsThere) {
  addSession("short", 10, Millis(1'000));
  addSession("long", 20, Millis(60'000));
  const auto cart = table_.of("cart");
  ASSERT_TRUE(run(census_.count("cart", cart)));
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{2, 30}));
  clock_.advance(Millis(5'000));
  ASSERT_TRUE(run(census_.count("cart", cart)));
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{1, 30}));
}

TEST_F(CensusTest, WhatHasExpiredIsGoneFromTheNextCount) {
  addSession("a", 10, std::nullopt);
  store::Batch batch;
  put(batch, state::kSpace, "fleeting", "1234", {store_.now() + Millis(1'000)});
  commit(sessionPartition("cart", "a"), std::move(batch));
  const auto cart = table_.of("cart");
  ASSERT_TRUE(run(census_.count("cart", cart)));
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{1, 14}));
  clock_.advance(Millis(5'000));
  ASSERT_TRUE(run(census_.count("cart", cart)));
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{1, 10}));
}

TEST_F(CensusTest, CountsWhatIsDeployedWithoutBeingAsked) {
  addSession("a", 10, std::nullopt);
  const auto cart = table_.of("cart");
  io_.restart();
  census_.start();
  while (!cart->kept.totals()) io_.run_one();
  EXPECT_EQ(cart->kept.totals(), (KeptTotals{1, 10}));
  run(census_.stop());
}

}  // namespace
}  // namespace nimbus::session
