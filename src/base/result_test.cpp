#include "base/result.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace nimbus {
namespace {

Result<int> half(int n) {
  if (n % 2 != 0) return Error(Code::InvalidArgument, "odd").with("value", n);
  return n / 2;
}

Result<std::string> quarterText(int n) {
  NIMBUS_TRY(const int once, half(n));
  NIMBUS_TRY(const int twice, half(once));
  return std::to_string(twice);
}

Result<> bothEven(int a, int b) {
  NIMBUS_CHECK(half(a));
  NIMBUS_CHECK(half(b));
  return {};
}

TEST(ResultTest, TryPassesTheValueOn) {
  EXPECT_EQ(*quarterText(12), "3");
}

TEST(ResultTest, TryReturnsTheFirstError) {
  const auto result = quarterText(6);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code(), Code::InvalidArgument);
  EXPECT_EQ(result.error().field("value", 0), 3);
}

TEST(ResultTest, CheckLooksAtResultsWithoutTheirValues) {
  EXPECT_TRUE(bothEven(2, 4));
  EXPECT_FALSE(bothEven(2, 5));
}

TEST(ResultTest, HoldsWhatCanOnlyBeMoved) {
  Result<std::unique_ptr<int>> result = std::make_unique<int>(7);
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultTest, ReadingTheWrongSideAborts) {
  const Result<int> result = 1;
  EXPECT_DEATH(static_cast<void>(result.error()), "Result read without a check");
}

TEST(ErrorTest, ContextIsPutInFront) {
  const Error error = Error(Code::Internal, "disk I/O error").in("loading session s1");
  EXPECT_EQ(error.message(), "loading session s1: disk I/O error");
  EXPECT_EQ(error.outcome(), Outcome::NotApplied);
}

TEST(ErrorTest, CodesHaveTheNamesClientsKnow) {
  EXPECT_EQ(codeName(Code::InvalidJson), "invalid_json");
  EXPECT_EQ(codeName(Code::VersionConflict), "version_conflict");
  EXPECT_EQ(codeName(Code::InsufficientStorage), "insufficient_storage");
}

}  // namespace
}  // namespace nimbus
