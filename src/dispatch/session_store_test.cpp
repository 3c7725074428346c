// Sessions by number, and the blocks they live in.

#include "dispatch/session_store.h"

#include "dispatch/testing/fake_host.h"

#include <gmock/gmock.h>

#include <set>
#include <string>
#include <vector>

namespace nimbus::dispatch {
namespace {

class SessionStoreTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kBlock = 32 * 1024;

  std::vector<Session*> make(std::size_t count) {
    std::vector<Session*> made;
    for (std::size_t i = 0; i < count; ++i) {
      made.push_back(&store_.make(std::to_string(i), static_cast<std::uint32_t>(i), worker_));
    }
    return made;
  }

  FakeHost host_;
  Worker worker_{host_, 0};
  SessionStore store_;
};

TEST_F(SessionStoreTest, FindsEachByItsNumber) {
  std::set<SessionNumber> numbers;
  const auto made = make(3 * kBlock);
  for (std::size_t i = 0; i < made.size(); ++i) {
    ASSERT_EQ(store_.at(made[i]->number), made[i]);
    ASSERT_EQ(made[i]->name(), std::to_string(i));
    ASSERT_EQ(made[i]->hash, i);
    ASSERT_EQ(made[i]->worker, &worker_);
    ASSERT_NE(made[i]->number, kNoSession);
    ASSERT_LT(made[i]->number, SessionStore::kMostSessions);
    ASSERT_TRUE(numbers.insert(made[i]->number).second);
  }
  for (Session* const session : made) store_.free(*session);
}

TEST_F(SessionStoreTest, CellsAreUsedAgainTheFirstBlocksFirst) {
  auto made = make(2 * kBlock);
  std::size_t free_cells = 0;  // in the first block
  for (std::size_t i = 0; i < made.size(); i += 3) {
    if (made[i]->number < kBlock) ++free_cells;
    store_.free(*made[i]);
  }
  for (std::size_t i = 0; i < made.size(); i += 3) {
    made[i] = &store_.make("again", 0, worker_);
    EXPECT_EQ(made[i]->number < kBlock, i / 3 < free_cells);
  }
  std::set<Session*> distinct(made.begin(), made.end());
  EXPECT_EQ(distinct.size(), made.size());
}

TEST_F(SessionStoreTest, AStoreThatWasEmptiedIsLikeNew) {
  for (int round = 0; round < 3; ++round) {
    const auto made = make(2 * kBlock + 100);
    for (Session* const session : made) store_.free(*session);
  }
  EXPECT_LT(store_.make("one", 0, worker_).number, kBlock);
}

TEST_F(SessionStoreTest, WhoStaysBehindInManyBlocksIsFarOut) {
  const auto made = make(8 * kBlock);
  EXPECT_FALSE(store_.isFarOut(*made.back()));
  for (std::size_t i = 0; i + 10 < made.size(); ++i) {
    if (i % kBlock != 7) store_.free(*made[i]);  // one per block stays, so all blocks do
  }
  EXPECT_TRUE(store_.isFarOut(*made.back()));
  EXPECT_FALSE(store_.isFarOut(*made[7]));
  // Made again, they come to the first block, and the others go.
  for (std::size_t i = 0; i < made.size(); ++i) {
    const bool stayed = i % kBlock == 7 || i + 10 >= made.size();
    if (!stayed || !store_.isFarOut(*made[i])) continue;
    EXPECT_LT(store_.make("moved", 0, worker_).number, kBlock);
    store_.free(*made[i]);
  }
  EXPECT_FALSE(store_.isFarOut(*made[7]));
}

TEST_F(SessionStoreTest, LongNamesAreKeptElsewhere) {
  for (std::size_t size = 0; size < 100; ++size) {
    const std::string name(size, 'n');
    Session& session = store_.make(name, 0, worker_);
    EXPECT_EQ(session.name(), name);
    store_.free(session);
  }
}

}  // namespace
}  // namespace nimbus::dispatch
