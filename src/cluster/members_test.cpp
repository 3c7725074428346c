#include "cluster/members.h"

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "store/memory/memory_store.h"
#include "store/testing/altered_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>

namespace nimbus::cluster {
namespace {

constexpr Millis kLease{4'000};

// Now and then it can only be read, as SQLite while another process has it to itself.
class HeldStore final : public store::AlteredStore {
 public:
  using AlteredStore::AlteredStore;

  bool is_held = false;

 private:
  store::PendingCommit begin(store::CommitOrder order) override {
    if (!is_held) return passOn(std::move(order));
    return refuse(std::move(order), Error(Code::Unavailable, "another process has it"));
  }
};

// Nodes in one process, which share a store and its clock. Nothing beats by itself.
class MembersTest : public ::testing::Test {
 protected:
  template <typename T>
  T run(Task<T> task) {
    auto future = boost::asio::co_spawn(io_, std::move(task), boost::asio::use_future);
    io_.restart();
    while (future.wait_for(std::chrono::seconds(0)) != std::future_status::ready) io_.run_one();
    return future.get();
  }
  std::unique_ptr<Members> node(const std::string& id) {
    auto members =
        std::make_unique<Members>(Members::Options{id, "1", kLease},
                                  Members::Parts{store_, steady_, random_}, io_.get_executor());
    EXPECT_TRUE(run(members->join("127.0.0.1:1", "http://" + id)));
    return members;
  }
  void pass(Millis time) {
    clock_.advance(time);
    steady_.advance(time);
  }
  Members::Place place(Members& members, const std::string& owner, std::uint64_t point = 7) {
    const auto found = run(members.place(owner, point));
    EXPECT_TRUE(found);
    return found ? *found : Members::Place();
  }
  // A point that the ring gives to that node.
  static std::uint64_t pointFor(const Members& members, std::string_view key) {
    for (int i = 0;; ++i) {
      const std::uint64_t point = pointOf("f", std::to_string(i));
      if (members.view()->proposedFor(point) == key) return point;
    }
  }

  boost::asio::io_context io_;
  ManualClock clock_;
  ManualSteadyClock steady_;
  SystemRandom random_;
  store::memory::MemoryStore memory_{clock_};
  HeldStore store_{memory_};
};

TEST_F(MembersTest, OneAloneHasEverything) {
  const auto a = node("a");
  EXPECT_FALSE(a->hasOthers());
  EXPECT_TRUE(place(*a, "").is_here);
  EXPECT_TRUE(place(*a, a->self()).is_here);
  EXPECT_EQ(place(*a, "").self, a->self());
  EXPECT_EQ(idOfKey(a->self()), "a");
}

TEST_F(MembersTest, NodesOfAStoreKnowEachOtherAndOneSecret) {
  const auto a = node("a");
  const auto b = node("b");
  EXPECT_EQ(b->view()->members.size(), 2U);
  EXPECT_EQ(a->view()->members.size(), 1U) << "it has not looked since";
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_TRUE(a->hasOthers());
  EXPECT_EQ(a->view()->find(b->self())->url, "http://b");
  EXPECT_EQ(a->secret(), b->secret());
  EXPECT_GE(a->secret().size(), 32U);
}

TEST_F(MembersTest, WhatALivingNodeOwnsIsLeftToItWhateverTheRingSays) {
  const auto a = node("a");
  const auto b = node("b");
  ASSERT_TRUE(run(a->refresh()));
  const std::uint64_t own = pointFor(*a, a->self());
  EXPECT_TRUE(place(*a, "", own).is_here);
  const Members::Place elsewhere = place(*a, b->self(), own);
  EXPECT_FALSE(elsewhere.is_here);
  EXPECT_EQ(elsewhere.owner, b->self());
  EXPECT_EQ(place(*a, "", pointFor(*a, b->self())).owner, b->self());
}

TEST_F(MembersTest, AnOwnerThatIsNotKnownMayHaveJoinedSince) {
  const auto a = node("a");
  const auto b = node("b");
  EXPECT_EQ(place(*a, b->self()).owner, b->self());
  EXPECT_TRUE(a->hasOthers());
}

TEST_F(MembersTest, WhoIsNotHeardOfForALeaseIsGoneByTheClockOfTheStore) {
  const auto a = node("a");
  const auto b = node("b");
  pass(kLease - Millis(1));
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_FALSE(place(*a, b->self()).is_here);
  pass(Millis(1));
  ASSERT_TRUE(run(a->refresh()));
  EXPECT_FALSE(a->hasOthers());
  EXPECT_TRUE(place(*a, b->self()).is_here);
}

TEST_F(MembersTest, WhoIsGoneIsSeenAlsoWhileNobodyCanWrite) {
  const auto a = node("a");
  const auto b = node("b");
  ASSERT_TRUE(run(a->renewNow()));
  ASSERT_NE(a->view()->find(b->self()), nullptr);
  store_.is_held = true;
  pass(kLease);
  EXPECT_FALSE(run(a->renewNow())) << "its own lease cannot be renewed";
  EXPECT_EQ(a->view()->find(b->self()), nullptr);
}

TEST_F(MembersTest, AHeartbeatKeepsTheLeaseAndTheKey) {
  const auto a = node("a");
  const auto b = node("b");
  const std::string key = a->self();
  for (int i = 0; i < 10; ++i) {
    pass(kLease / 2);
    ASSERT_TRUE(run(a->renewNow()));
  }
  EXPECT_EQ(a->self(), key);
  ASSERT_TRUE(run(b->refresh()));
  EXPECT_NE(b->view()->find(key), nullptr);
}

TEST_F(MembersTest, WhoComesBackTooLateIsAnother) {
  const auto a = node("a");
  const auto b = node("b");
  const std::string before = a->self();
  const std::uint64_t term = a->term();
  pass(kLease);
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_NE(a->self(), before);
  EXPECT_EQ(idOfKey(a->self()), "a");
  EXPECT_NE(a->term(), term);
  EXPECT_FALSE(a->isSure(term, steady_.now())) << "others may have claimed what was claimed then";
  EXPECT_TRUE(a->isSure(a->term(), steady_.now()));
  ASSERT_TRUE(run(b->renewNow()));
  EXPECT_EQ(b->view()->find(before), nullptr);
  EXPECT_NE(b->view()->find(a->self()), nullptr);
}

TEST_F(MembersTest, ItIsSureOfItsLeaseForLessThanOthersWait) {
  const auto a = node("a");
  EXPECT_TRUE(a->isSure(a->term(), steady_.now()));
  steady_.advance(kLease * 3 / 4 - Millis(1));
  EXPECT_TRUE(a->isSure(a->term(), steady_.now()));
  steady_.advance(Millis(1));
  EXPECT_FALSE(a->isSure(a->term(), steady_.now()));
  clock_.advance(kLease * 3 / 4);
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_TRUE(a->isSure(a->term(), steady_.now()));
  EXPECT_FALSE(a->isSure(0, steady_.now()));
}

TEST_F(MembersTest, WhoLeavesIsNotProposedAndKeepsWhatItOwnsUntilItHasLeft) {
  const auto a = node("a");
  const auto b = node("b");
  const std::string key = b->self();
  run(b->beginToLeave());
  ASSERT_TRUE(run(a->refresh()));
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(a->view()->proposedFor(pointOf("f", std::to_string(i))), a->self());
    EXPECT_EQ(b->view()->proposedFor(pointOf("f", std::to_string(i))), a->self());
  }
  EXPECT_EQ(place(*a, key).owner, key);
  run(b->leave());
  ASSERT_TRUE(run(a->refresh()));
  EXPECT_TRUE(place(*a, key).is_here) << "at once, not after its lease";
}

TEST_F(MembersTest, TheLastThatLeavesServesToTheEnd) {
  const auto a = node("a");
  run(a->beginToLeave());
  EXPECT_TRUE(place(*a, "").is_here);
}

TEST_F(MembersTest, WhoHasLeftTakesNothing) {
  const auto a = node("a");
  run(a->leave());
  EXPECT_EQ(a->term(), 0U);
  const auto refused = run(a->place("", 7));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::Unavailable);
}

TEST_F(MembersTest, AnInstanceThatIsStartedAgainWithItsIdReplacesTheOneBefore) {
  const auto first = node("a");
  const auto other = node("b");
  const auto second = node("a");
  ASSERT_TRUE(run(other->refresh()));
  EXPECT_EQ(other->view()->find(first->self()), nullptr);
  EXPECT_NE(other->view()->find(second->self()), nullptr);
}

TEST_F(MembersTest, WhoCameAndWentIsToldOnce) {
  const auto a = node("a");
  int told = 0;
  a->onChange([&](const View&, const View&) { ++told; });
  const std::uint64_t before = a->changes();
  const auto b = node("b");
  ASSERT_TRUE(run(a->renewNow()));
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_EQ(told, 1);
  run(b->leave());
  a->elsewhere().remember("f", "s", "x");
  ASSERT_TRUE(run(a->renewNow()));
  EXPECT_EQ(told, 2);
  EXPECT_EQ(a->changes(), before + 2);
  EXPECT_FALSE(a->elsewhere().find("f", "s")) << "what was known may be another's now";
}

}  // namespace
}  // namespace nimbus::cluster
