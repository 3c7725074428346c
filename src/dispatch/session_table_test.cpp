// Sessions by name, found without a lock while others come and go.

#include "dispatch/session_table.h"

#include "dispatch/testing/fake_host.h"

#include <gmock/gmock.h>

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::dispatch {
namespace {

class SessionTableTest : public ::testing::Test {
 protected:
  Session* obtain(const SessionTable::Visit& visit) {
    return visit.obtain([&] { return &worker_; });
  }

  Session* obtain(const std::string& name) { return obtain(SessionTable::Visit(table_, name)); }

  bool knows(const std::string& name) {
    const SessionTable::Visit visit(table_, name);
    return visit.findSurely() != nullptr;
  }

  void sweep(const std::function<bool(const Session&)>& is_due) {
    table_.sweep(is_due, [](const std::vector<Session*>&) {});
  }

  void sweepAll() {
    sweep([](const Session&) { return true; });
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
  sweep([](const Session& session) { return session.name() != "77"; });
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
    sweepAll();
    EXPECT_EQ(table_.size(), 0U);
  }
}

TEST_F(SessionTableTest, WhatIsNeededStays) {
  Session* const busy = obtain("busy");
  obtain("idle");
  const auto keepBusy = [&](const std::vector<Session*>& retiring) {
    for (Session* const session : retiring) {
      EXPECT_TRUE(session->retiring);
      if (session == busy) session->retiring = false;
    }
  };
  table_.sweep([](const Session&) { return true; }, keepBusy);
  EXPECT_TRUE(knows("busy"));
  EXPECT_FALSE(knows("idle"));
  EXPECT_EQ(SessionTable::Visit(table_, "busy").find(), busy);
  sweep([](const Session&) { return false; });
  EXPECT_TRUE(knows("busy"));
  sweepAll();
  EXPECT_FALSE(knows("busy"));
}

TEST_F(SessionTableTest, ASessionIsNotForgottenDuringAVisit) {
  {
    const SessionTable::Visit visit(table_, "alice");
    Session* const alice = obtain(visit);
    sweepAll();
    EXPECT_EQ(forgotten_, 0);
    EXPECT_FALSE(alice->retiring);
    EXPECT_EQ(visit.find(), alice);
  }
  sweepAll();
  EXPECT_EQ(forgotten_, 1);
}

TEST_F(SessionTableTest, WhoComesWhileASessionIsBeingForgottenGetsANewOne) {
  Session* const first = obtain("alice");
  std::thread visitor;
  std::atomic<bool> missed = false;
  table_.sweep([](const Session&) { return true; },
               [&](const std::vector<Session*>&) {
                 visitor = std::thread([&] {
                   const SessionTable::Visit visit(table_, "alice");
                   missed = visit.find() == nullptr;
                   missed.notify_one();
                   Session* const second = obtain(visit);  // waits for the sweep
                   EXPECT_FALSE(second->retiring);
                   EXPECT_EQ(forgotten_, 1);
                   EXPECT_TRUE(first->retiring);  // a sanitizer knows whether it is there
                 });
                 missed.wait(false);
               });
  visitor.join();
  EXPECT_EQ(table_.size(), 1U);
}

// Memory goes back when few of many are left, wherever those stand; who is found stays on its
// worker.
TEST_F(SessionTableTest, WhoIsLeftOfManyMovesTogether) {
  constexpr int kMany = 300'000;
  const auto isOneOfFew = [](std::string_view name) { return name.ends_with("77777"); };
  for (int i = 0; i < kMany; ++i) obtain(std::to_string(i));
  const SessionNumber before = obtain("277777")->number;
  sweep([&](const Session& session) { return !isOneOfFew(session.name()); });
  EXPECT_EQ(table_.size(), 3U);
  sweep([](const Session&) { return false; });
  EXPECT_LT(obtain("277777")->number, before);
  for (const char* const name : {"77777", "177777", "277777"}) {
    const SessionTable::Visit visit(table_, name);
    ASSERT_NE(visit.find(), nullptr);
    EXPECT_EQ(visit.find()->name(), name);
    EXPECT_EQ(visit.find()->worker, &worker_);
  }
  EXPECT_EQ(table_.size(), 3U);
  EXPECT_EQ(forgotten_, kMany - 3);
}

TEST_F(SessionTableTest, NothingIsBegunWhereNobodyHasRoom) {
  const SessionTable::Visit visit(table_, "alice");
  EXPECT_EQ(visit.obtain([]() -> Worker* { return nullptr; }), nullptr);
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

// Visitors come; a sweeper forgets all it can. What a visitor has found is still there when it
// leaves.
TEST_F(SessionTableTest, NobodyIsForgottenWhileVisited) {
  constexpr int kRounds = 20'000;
  constexpr unsigned kNames = 40;
  std::atomic<bool> done = false;
  std::atomic<bool> wrong = false;
  const auto visitAll = [&](unsigned random) {
    for (int i = 0; i < kRounds; ++i) {
      random = random * 1664525U + 1013904223U;
      const std::string name = std::to_string((random >> 16U) % kNames);
      const SessionTable::Visit visit(table_, name);
      Session* session = visit.find();
      if (session == nullptr) session = obtain(visit);
      if (session->name() != name || visit.findSurely() != session) wrong = true;
    }
  };
  std::thread sweeper([&] {
    while (!done) sweepAll();
  });
  std::thread other([&] { visitAll(1); });
  visitAll(2);
  other.join();
  done = true;
  sweeper.join();
  EXPECT_FALSE(wrong);
  EXPECT_GT(forgotten_, 0);
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
