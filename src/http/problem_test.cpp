#include "http/problem.h"

#include <boost/json.hpp>
#include <gtest/gtest.h>

namespace nimbus::http {
namespace {

namespace json = boost::json;

TEST(ProblemTest, HasEveryMemberAndTheFieldsOfTheError) {
  const Error error = Error(Code::QueueFull, "a \"quoted\" reason", Outcome::NotApplied)
                          .with("retry_after_ms", 1001)
                          .with("queue_length", 1000)
                          .with("session", "caf\xC3\xA9\n");
  const Response response = problem(error, "r1");
  EXPECT_EQ(response.status, 429);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_EQ(response.fields.find("retry-after"), "2");
  const json::value expected = {{"type", "urn:nimbus:error:queue_full"},
                                {"title", "The queue is full"},
                                {"status", 429},
                                {"detail", "a \"quoted\" reason"},
                                {"code", "queue_full"},
                                {"request_id", "r1"},
                                {"outcome", "not_applied"},
                                {"retry_after_ms", 1001},
                                {"queue_length", 1000},
                                {"session", "caf\xC3\xA9\n"}};
  EXPECT_EQ(json::parse(response.body), expected);
}

TEST(ProblemTest, EveryCodeHasTheStatusOfTheContract) {
  const std::pair<Code, int> expected[] = {{Code::InvalidJson, 400},
                                           {Code::InvalidArgument, 400},
                                           {Code::Unauthenticated, 401},
                                           {Code::Forbidden, 403},
                                           {Code::NotFound, 404},
                                           {Code::MethodNotAllowed, 405},
                                           {Code::Conflict, 409},
                                           {Code::VersionConflict, 412},
                                           {Code::TooLarge, 413},
                                           {Code::UnsupportedMediaType, 415},
                                           {Code::Unprocessable, 422},
                                           {Code::QuotaExceeded, 429},
                                           {Code::RateLimited, 429},
                                           {Code::QueueFull, 429},
                                           {Code::FunctionError, 500},
                                           {Code::Internal, 500},
                                           {Code::FunctionCrashed, 502},
                                           {Code::Unavailable, 503},
                                           {Code::Fenced, 503},
                                           {Code::Timeout, 504},
                                           {Code::InsufficientStorage, 507}};
  EXPECT_EQ(std::size(expected), static_cast<std::size_t>(Code::InsufficientStorage) + 1);
  for (const auto& [code, status] : expected) EXPECT_EQ(statusOf(code), status) << codeName(code);
}

TEST(ProblemTest, ARefusalMayBeFinerThanItsCode) {
  const Response response = problem(Refusal(431, Code::TooLarge, "long"), "r1");
  EXPECT_EQ(response.status, 431);
  const json::value body = json::parse(response.body);
  EXPECT_EQ(body.at("code"), "too_large");
  EXPECT_EQ(body.at("status"), 431);
  EXPECT_EQ(body.at("title"), "Request Header Fields Too Large");
}

TEST(FieldsTest, NoValueCanBeginAnotherLine) {
  Fields fields;
  fields.add("ETag", "\"1\"\r\nSet-Cookie: a=b").add("X", "tab\tstays");
  EXPECT_EQ(fields.text(), "ETag: \"1\"??Set-Cookie: a=b\r\nX: tab\tstays\r\n");
  EXPECT_EQ(fields.find("x"), "tab\tstays");
  EXPECT_EQ(fields.find("y"), "");
}

}  // namespace
}  // namespace nimbus::http
