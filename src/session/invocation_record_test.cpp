#include "session/invocation_record.h"

#include "session/session_record.h"

#include <gmock/gmock.h>

#include <set>

namespace nimbus::session {
namespace {

using Status = InvocationRecord::Status;

InvocationRecord someRecord() {
  InvocationRecord record;
  record.function_id = "cart";
  record.session_key = "alice \"1\"";
  record.status = Status::Succeeded;
  record.attempts = 2;
  record.seq = 17;
  record.created_at = Timestamp(Millis(1000));
  record.due_at = Timestamp(Millis(2000));
  record.started_at = Timestamp(Millis(3000));
  record.finished_at = Timestamp(Millis(4000));
  return record;
}

TEST(InvocationRecordTest, ComesBackAsItWas) {
  InvocationRecord record = someRecord();
  record.status_code = 201;
  record.body = R"({"big":12345678901234567890, "e" : [ ]})";
  record.instance = "vm-1";
  EXPECT_EQ(*InvocationRecord::fromJson(record.toJson()), record);
}

TEST(InvocationRecordTest, NotesHowAnAttemptEnded) {
  InvocationRecord record = someRecord();
  Outcome outcome;
  outcome.error = Error(Code::FunctionError, "no \"such\" item");
  outcome.failure = FunctionFailure{"ValueError", "no \"such\" item", "trace"};
  record.note(outcome);
  EXPECT_EQ(
      record.error,
      R"({"code":"function_error","message":"no \"such\" item","type":"ValueError","trace":"trace"})");
  EXPECT_EQ(*InvocationRecord::fromJson(record.toJson()), record);
  outcome = {};
  outcome.body = "5";
  record.note(outcome);
  EXPECT_EQ(record.error, "");
  EXPECT_EQ(record.body, "5");
}

TEST(InvocationRecordTest, EveryStatusHasItsName) {
  for (const auto status : {Status::Queued, Status::Running, Status::Retrying, Status::Succeeded,
                            Status::Failed, Status::Cancelled, Status::Parked}) {
    EXPECT_EQ(statusNamed(statusName(status)), status);
  }
  EXPECT_EQ(statusNamed("odd"), std::nullopt);
}

TEST(InvocationRecordTest, WhatWaitsKeepsItsPayloadByteForByte) {
  QueuedRequest request;
  request.payload = R"({ "a":1.0 })";
  request.traceparent = "00-1-2-01";
  request.timeout = Millis(500);
  request.priority = 9;
  EXPECT_EQ(*QueuedRequest::fromJson(request.toJson()), request);
}

TEST(InvocationRecordTest, LanesAreNoSessions) {
  std::set<std::string> lanes;
  for (int i = 0; i < 1000; ++i) lanes.insert(laneOf("r" + std::to_string(i)));
  EXPECT_EQ(lanes.size(), kLanes);
  for (const std::string& lane : lanes) {
    EXPECT_TRUE(isLane(lane));
    EXPECT_NE(linePartition("f", lane), sessionPartition("f", lane));
  }
  EXPECT_FALSE(isLane("alice"));
  EXPECT_EQ(linePartition("f", "alice"), sessionPartition("f", "alice"));
}

TEST(InvocationRecordTest, WhatIsDueIsListedByTime) {
  const LineName line{"f", "a:b"};
  const store::Listing early = listDue(Timestamp(Millis(999)), "z", line);
  const store::Listing late = listDue(Timestamp(Millis(1'000'000)), "a:1", line);
  EXPECT_LT(early.key, late.key);
  const auto due = readDue(late.key);
  ASSERT_TRUE(due);
  EXPECT_EQ(due->at, Timestamp(Millis(1'000'000)));
  EXPECT_EQ(due->request_id, "a:1");
  EXPECT_EQ(*LineName::fromJson(*late.value), line);
  EXPECT_FALSE(readDue("odd"));
}

}  // namespace
}  // namespace nimbus::session
