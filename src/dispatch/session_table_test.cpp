// Sessions by name, found without a lock while others come and go.

#include "dispatch/session_table.h"

#include "dispatch/testing/fake_host.h"

#include <gmock/gmock.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

namespace nimbus::dispatch {
namespace {

class SessionTableTest : public ::testing::Test {
 protected:
  Session* obtain(const SessionTable::Visit& visit, bool may_move = false) {
    return visit.obtain([may_move](const Session&) { return may_move; }, [&] { return &worker_; });
  }

  Session* obtain(const std::string& name) { return obtain(SessionTable::Visit(table_, name)); }

  bool knows(const std::string& name) {
    const SessionTable::Visit visit(table_, name);
    return visit.findSurely() != nullptr;
  }

  FakeHost host_;
  Worker worker_{host_, 0};
  std::atomic<int> forgotten_ = 0;
  SessionTable table_{7, [this](Session&) { ++forgotten_; }};
};

TEST_F(SessionTableTest, FindsWhatWasBegunAndNothingElse) {
  EXPECT_FALSE(knows("alice"));
  Session* const alice = obtain("alice");
  EXPECT_EQ(alice->name(), "alice");
  EXPECT_EQ(obtain("alice"), alice);
  EXPECT_EQ(SessionTable::Visit(table_, "alice").find(), alice);
  EXPECT_EQ(SessionTable::Visit(table_, "bob").find(), nullptr);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTableTest, HoldsManyAndShrinksAgain) {
  constexpr int kMany = 20'000;
  for (int i = 0; i < kMany; ++i) obtain(std::to_string(i));
  EXPECT_EQ(table_.size(), static_cast<std::size_t>(kMany));
  for (int i = 0; i < kMany; ++i) ASSERT_TRUE(knows(std::to_string(i)));
  std::size_t seen = 0;
  table_.forEach([&](Session&) { ++seen; });
  EXPECT_EQ(seen, static_cast<std::size_t>(kMany));
  table_.sweep([](const Session& session) { return session.name() != "77"; });
  EXPECT_EQ(table_.size(), 1U);
  EXPECT_EQ(forgotten_, kMany - 1);
  EXPECT_TRUE(knows("77"));
  EXPECT_FALSE(knows("78"));
}

TEST_F(SessionTableTest, NamesMayBeAsLongAsTheyLike) {
  std::vector<std::string> names;
  for (std::size_t size = 0; size < 200; ++size) names.push_back(std::string(size, 'n'));
  for (int round = 0; round < 3; ++round) {
    for (const std::string& name : names) EXPECT_EQ(obtain(name)->name(), name);
    for (const std::string& name : names) EXPECT_TRUE(knows(name));
    table_.sweep([](const Session&) { return true; });
    EXPECT_EQ(table_.size(), 0U);
  }
}

TEST_F(SessionTableTest, OnlyIdleSessionsAreForgotten) {
  Session* const busy = obtain("busy");
  busy->gate.enter(1, 0);
  obtain("paused")->gate.setPaused();
  obtain("idle");
  table_.sweep([](const Session&) { return true; });
  EXPECT_TRUE(knows("busy"));
  EXPECT_TRUE(knows("paused"));
  EXPECT_FALSE(knows("idle"));
  busy->gate.leave(1);
  table_.sweep([](const Session&) { return false; });
  EXPECT_TRUE(knows("busy"));
  table_.sweep([](const Session&) { return true; });
  EXPECT_FALSE(knows("busy"));
}

TEST_F(SessionTableTest, ASessionStaysValidDuringAVisitThoughItIsForgotten) {
  {
    const SessionTable::Visit visit(table_, "alice");
    Session* const alice = obtain(visit);
    table_.sweep([](const Session&) { return true; });
    EXPECT_EQ(forgotten_, 1);
    EXPECT_EQ(alice->name(), "alice");  // a sanitizer knows whether it is there
    EXPECT_EQ(alice->gate.enter(1, 0), Gate::Entry::Retired);
    table_.sweep([](const Session&) { return true; });
    EXPECT_EQ(alice->name(), "alice");
  }
  table_.sweep([](const Session&) { return true; });
}

TEST_F(SessionTableTest, AnIdleSessionThatMayMoveIsBegunAgain) {
  const SessionTable::Visit visit(table_, "alice");
  Session* const first = obtain(visit);
  EXPECT_EQ(obtain(visit, false), first);
  Session* const second = obtain(visit, true);
  EXPECT_NE(second, first);
  EXPECT_EQ(forgotten_, 1);
  second->gate.enter(1, 0);
  EXPECT_EQ(obtain(visit, true), second);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(SessionTableTest, NothingIsBegunWhereNobodyHasRoom) {
  const SessionTable::Visit visit(table_, "alice");
  EXPECT_EQ(visit.obtain([](const Session&) { return false; }, []() -> Worker* { return nullptr; }),
            nullptr);
  EXPECT_EQ(table_.size(), 0U);
}

TEST_F(SessionTableTest, WaitsForVisits) {
  std::atomic<bool> waited = false;
  std::thread waiting;
  {
    const SessionTable::Visit visit(table_, "alice");
    waiting = std::thread([&] {
      table_.waitForVisits();
      waited = true;
    });
    EXPECT_FALSE(waited);
  }
  waiting.join();
  EXPECT_TRUE(waited);
}

// Visitors enter and leave; sweepers forget all they can. Whoever has entered is never forgotten.
TEST_F(SessionTableTest, NobodyIsForgottenWhileEntered) {
  constexpr int kRounds = 20'000;
  std::atomic<bool> done = false;
  std::vector<std::atomic<int>> inside(40);
  std::atomic<bool> wrong = false;
  const auto visitAll = [&](int seed) {
    unsigned random = static_cast<unsigned>(seed) * 2654435761U + 1;
    for (int i = 0; i < kRounds; ++i) {
      random = random * 1664525U + 1013904223U;
      const std::size_t number = (random >> 16U) % inside.size();
      const std::string name = std::to_string(number);
      const SessionTable::Visit visit(table_, name);
      Session* session = visit.find();
      while (session == nullptr || session->gate.enter(1, 0) != Gate::Entry::Entered) {
        session = obtain(visit);
      }
      if (session->name() != name) wrong = true;
      session->gate.leave(1);
    }
  };
  std::thread sweeper([&] {
    while (!done) table_.sweep([](const Session&) { return true; });
  });
  std::thread other([&] { visitAll(1); });
  visitAll(2);
  other.join();
  done = true;
  sweeper.join();
  EXPECT_FALSE(wrong);
  std::set<std::string> names;
  table_.forEach([&](const Session& session) {
    EXPECT_TRUE(names.insert(std::string(session.name())).second) << "twice";
  });
  EXPECT_EQ(names.size(), table_.size());
}

// A table that grows moves sessions between chains under those who look.
TEST_F(SessionTableTest, WhoLooksUnderTheLockFindsWhatIsThereWhileTheTableGrows) {
  obtain("alice");
  std::atomic<bool> done = false;
  std::thread grower([&] {
    for (int i = 0; i < 30'000; ++i) obtain(std::to_string(i));
    done = true;
  });
  while (!done) {
    const SessionTable::Visit visit(table_, "alice");
    if (visit.find() == nullptr) ASSERT_NE(visit.findSurely(), nullptr);
  }
  grower.join();
}

}  // namespace
}  // namespace nimbus::dispatch
