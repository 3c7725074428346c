#include "gateway/key_ring.h"

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "gateway/testing/run.h"
#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <vector>

namespace nimbus::gateway {
namespace {

class KeyRingTest : public ::testing::Test {
 protected:
  static ApiKey keyOf(const std::string& id) {
    auto principal = std::make_shared<Principal>();
    principal->id = id;
    principal->scopes = {"invoke"};
    ApiKey key;
    key.principal = principal;
    key.hash = hashKey("nk_" + id);
    return key;
  }
  // Whether a request with the key would be let in.
  bool accepts(KeyRing& ring, const std::string& id) {
    steady_.advance(std::chrono::microseconds(1));  // no two requests come at once
    if (ring.known(id) != nullptr) return true;
    const auto found = run(ring.find(id));
    EXPECT_TRUE(found);
    return found && *found != nullptr;
  }

  ManualClock clock_;
  ManualSteadyClock steady_;
  store::memory::MemoryStore store_{clock_};
  KeyRing here_{store_, steady_, RateLimit::perMinute(600)};
  KeyRing there_{store_, steady_, RateLimit::perMinute(600)};
};

TEST_F(KeyRingTest, AKeyThatOneProcessMadeIsKnownToTheOthersAtOnce) {
  EXPECT_FALSE(accepts(there_, "k1"));
  ASSERT_TRUE(run(here_.add(keyOf("k1"))));
  EXPECT_TRUE(accepts(here_, "k1"));
  EXPECT_TRUE(accepts(there_, "k1"));
}

TEST_F(KeyRingTest, WhatIsKnownIsAskedOfNobodyForAWhile) {
  ASSERT_TRUE(run(here_.add(keyOf("k1"))));
  EXPECT_EQ(here_.known("k1"), nullptr);
  ASSERT_TRUE(accepts(here_, "k1"));
  steady_.advance(KeyRing::kKnownFor - Millis(1));
  EXPECT_EQ(here_.known("k2"), nullptr);
  ASSERT_NE(here_.known("k1"), nullptr);
  EXPECT_EQ(here_.known("k1")->principal->rate_limit, RateLimit::perMinute(600));
  steady_.advance(Millis(1));
  EXPECT_EQ(here_.known("k1"), nullptr);
  EXPECT_TRUE(accepts(here_, "k1"));
}

TEST_F(KeyRingTest, NobodyBelievesInADeletedKeyWhenTheDeletionHasReturned) {
  ASSERT_TRUE(run(here_.add(keyOf("k1"))));
  ASSERT_TRUE(accepts(here_, "k1"));
  ASSERT_TRUE(accepts(there_, "k1"));
  const auto begun = std::chrono::steady_clock::now();
  ASSERT_TRUE(run(here_.remove("k1")));
  // The deletion waits in real time; the rings go by the clock of this test.
  const auto waited = std::chrono::steady_clock::now() - begun;
  ASSERT_GE(waited, KeyRing::kKnownFor);
  steady_.advance(waited);
  EXPECT_FALSE(accepts(here_, "k1"));
  EXPECT_FALSE(accepts(there_, "k1"));
}

TEST_F(KeyRingTest, DeletingIsSeenAtTheNextLookHoweverManyKeysThereAre) {
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(run(here_.add(keyOf("k" + std::to_string(i)))));
  ASSERT_TRUE(accepts(there_, "k7"));
  ASSERT_TRUE(run(here_.remove("k7")));
  steady_.advance(KeyRing::kKnownFor);
  EXPECT_FALSE(accepts(there_, "k7"));
  EXPECT_TRUE(accepts(there_, "k8"));
  EXPECT_EQ(there_.known("k7"), nullptr);
}

TEST_F(KeyRingTest, WhatIsNotThereCanNeitherBeDeletedNorShown) {
  EXPECT_EQ(run(here_.remove("k1")).error().code(), Code::NotFound);
  EXPECT_EQ(run(here_.show("k1")).error().code(), Code::NotFound);
}

TEST_F(KeyRingTest, AnIdIsGivenOnce) {
  ASSERT_TRUE(run(here_.add(keyOf("k1"))));
  EXPECT_FALSE(run(there_.add(keyOf("k1"))));
}

TEST_F(KeyRingTest, KeysAreListedInPages) {
  for (const char* id : {"c", "a", "b"}) ASSERT_TRUE(run(here_.add(keyOf(id))));
  const auto first = run(here_.list("", 2));
  ASSERT_TRUE(first);
  ASSERT_EQ(first->items.size(), 2U);
  EXPECT_EQ(first->items[0].id(), "a");
  EXPECT_TRUE(first->more);
  const auto rest = run(here_.list(first->last, 2));
  ASSERT_TRUE(rest);
  ASSERT_EQ(rest->items.size(), 1U);
  EXPECT_EQ(rest->items[0].id(), "c");
  EXPECT_FALSE(rest->more);
}

TEST_F(KeyRingTest, ARecordThatCannotBeReadOpensNothingAndClosesNothing) {
  ASSERT_TRUE(run(here_.add(keyOf("good"))));
  store::Batch batch;
  batch.operations.emplace_back(store::op::Put{"keys", "bad", "no key", {}, std::nullopt});
  batch.operations.emplace_back(store::op::Put{"changes", "change", "", {}, std::nullopt});
  auto commit = store_.commit(store::Partition("keys", {}), std::nullopt, std::move(batch));
  ASSERT_TRUE(run(commit.done()));
  EXPECT_TRUE(accepts(here_, "good"));
  EXPECT_FALSE(accepts(here_, "bad"));
}

}  // namespace
}  // namespace nimbus::gateway
