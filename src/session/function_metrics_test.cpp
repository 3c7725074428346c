#include "session/function_metrics.h"

#include "base/json.h"
#include "session/operation_counts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

namespace nimbus::session {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Kind = state::Operation::Kind;
using state::Scope;

std::string exposed(const FunctionMetricsTable& table) {
  Metrics metrics;
  metrics.onScrape([&](Metrics::Scrape& scrape) { table.expose(scrape); });
  return metrics.expose();
}

TEST(FunctionMetricsTest, CallsAreShownByHowTheyEnded) {
  FunctionMetricsTable table;
  const auto cart = table.of("cart");
  cart->callEnded(std::nullopt);
  cart->callEnded(std::nullopt);
  cart->callEnded(Code::Timeout);
  EXPECT_THAT(
      exposed(table),
      AllOf(HasSubstr("nimbus_invocations_total{function_id=\"cart\",outcome=\"ok\"} 2\n"),
            HasSubstr("nimbus_invocations_total{function_id=\"cart\",outcome=\"timeout\"} 1\n"),
            Not(HasSubstr("outcome=\"function_error\""))));
}

TEST(FunctionMetricsTest, DurationsAreSortedByTheirSize) {
  FunctionMetricsTable table;
  const auto cart = table.of("cart");
  cart->operation(Kind::Incr, Scope::Function, std::nullopt, microseconds(100));
  cart->operation(Kind::Incr, Scope::Function, std::nullopt, milliseconds(300));
  cart->operation(Kind::Incr, Scope::Function, std::nullopt, std::chrono::seconds(2));
  const std::string name = "nimbus_state_operation_duration_ms_bucket{operation=\"incr\",le=";
  EXPECT_THAT(exposed(table),
              AllOf(HasSubstr(name + "\"0.1\"} 1\n"), HasSubstr(name + "\"250\"} 1\n"),
                    HasSubstr(name + "\"1000\"} 2\n"), HasSubstr(name + "\"+Inf\"} 3\n")));
}

TEST(FunctionMetricsTest, ARemovedFunctionIsNotShownAndBeginsAnew) {
  FunctionMetricsTable table;
  const auto before = table.of("cart");
  before->callEnded(std::nullopt);
  table.remove("cart");
  before->callEnded(std::nullopt);  // one that was still under way
  EXPECT_THAT(exposed(table), Not(HasSubstr("cart")));
  EXPECT_EQ(table.find("cart"), nullptr);
  table.of("cart")->callEnded(std::nullopt);
  EXPECT_THAT(exposed(table), HasSubstr("{function_id=\"cart\",outcome=\"ok\"} 1\n"));
}

TEST(FunctionMetricsTest, FunctionsAboveTheBoundAreShownTogether) {
  FunctionMetricsTable table(2);
  for (const char* const id : {"a", "b", "c", "d"}) table.of(id)->callEnded(std::nullopt);
  table.of("c")->operations.add(Kind::Get, Scope::Session, Code::TooLarge, 3);
  EXPECT_THAT(
      exposed(table),
      AllOf(HasSubstr("nimbus_invocations_total{function_id=\"a\",outcome=\"ok\"} 1\n"),
            HasSubstr("nimbus_invocations_total{function_id=\"_other\",outcome=\"ok\"} 2\n"),
            HasSubstr("function_id=\"_other\",operation=\"get\",scope=\"session\","
                      "status=\"too_large\"} 3\n"),
            Not(HasSubstr("\"c\""))));
  // A counter never goes back.
  table.remove("c");
  EXPECT_THAT(exposed(table), HasSubstr("{function_id=\"_other\",outcome=\"ok\"} 2\n"));
  // A place that is free goes to the next that comes.
  table.remove("a");
  table.of("e")->callEnded(std::nullopt);
  EXPECT_THAT(exposed(table), HasSubstr("{function_id=\"e\",outcome=\"ok\"} 1\n"));
}

TEST(FunctionMetricsTest, ThreadsLoseNoCount) {
  FunctionMetricsTable table;
  const auto cart = table.of("cart");
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 10'000; ++n) {
        cart->operations.add(Kind::Set, Scope::Session, Code::QuotaExceeded);
        cart->callEnded(std::nullopt);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(exposed(table), AllOf(HasSubstr("status=\"quota_exceeded\"} 40000\n"),
                                    HasSubstr("outcome=\"ok\"} 40000\n")));
}

TEST(OperationCountsTest, WhatIsUnderstoodIsCountedAndTheRestIgnored) {
  OperationTallies tallies;
  const auto counts = parseJson(
      R"({"get":2,"set:too_large":1,"invocation/keys":3,"function/incr:invalid_argument":4,)"
      R"("unknown":1,"get:unknown":1,"nowhere/get":1,"ttl":-1,"clear":"x","exists":1e300})");
  ASSERT_TRUE(counts);
  countOperations(*counts, tallies);
  std::vector<std::string> seen;
  tallies.forEach([&](Kind kind, Scope scope, std::optional<Code> failed, std::int64_t count) {
    seen.push_back(std::string(nameOf(scope)) + " " + std::string(nameOf(kind)) + " " +
                   std::string(failed ? codeName(*failed) : "ok") + " " + std::to_string(count));
  });
  EXPECT_THAT(seen,
              ::testing::ElementsAre("session get ok 2", "session set too_large 1",
                                     "function incr invalid_argument 4", "invocation keys ok 3"));
}

TEST(RetryAfterTest, IsASecondAsLongAsNothingIsKnown) {
  EXPECT_EQ(retryAfter(500, RecentTurn()), milliseconds(1000));
}

TEST(RetryAfterTest, IsWhatTheLineTakesAtThePaceOfLate) {
  RecentTurn turn;
  turn.add(milliseconds(20));
  EXPECT_EQ(retryAfter(9, turn), milliseconds(200));  // nine that wait and one that runs
  EXPECT_EQ(retryAfter(0, turn), milliseconds(20));
}

TEST(RetryAfterTest, FollowsACallThatGetsSlower) {
  RecentTurn turn;
  turn.add(milliseconds(1));
  for (int i = 0; i < 100; ++i) turn.add(milliseconds(100));
  EXPECT_GT(retryAfter(0, turn), milliseconds(95));
  EXPECT_LE(retryAfter(0, turn), milliseconds(100));
}

TEST(RetryAfterTest, IsNeverNothingAndNeverForEver) {
  RecentTurn turn;
  turn.add(microseconds(0));
  EXPECT_EQ(retryAfter(0, turn), milliseconds(1));
  RecentTurn slow;
  slow.add(std::chrono::hours(24));
  EXPECT_EQ(retryAfter(1'000'000, slow), std::chrono::hours(1));
}

}  // namespace
}  // namespace nimbus::session
