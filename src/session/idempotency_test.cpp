#include "session/idempotency.h"

#include "base/testing/manual_clock.h"
#include "session/outbox.h"
#include "store/memory/memory_store.h"

#include <gmock/gmock.h>

namespace nimbus::session {
namespace {

CallPtr callOf(std::optional<std::string> session) {
  auto function = std::make_shared<FunctionSpec>();
  function->id = "f";
  CallPtr call(new Call);
  call->function = std::move(function);
  call->request_id = "r1";
  call->session_key = std::move(session);
  return call;
}

TEST(IdempotencyTest, AnAnswerComesBackAsItWas) {
  StoredAnswer answer;
  answer.fingerprint = "print";
  answer.request_id = "r1";
  answer.session_key = "s";
  answer.node = "node";
  answer.outcome.seq = 3;
  answer.outcome.instance = "vm";
  answer.outcome.status_code = 404;
  answer.outcome.body = R"({"a" : 1.0})";
  answer.outcome.duration = std::chrono::microseconds(1234);
  Result<StoredAnswer> again = StoredAnswer::fromJson(answer.toJson());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->toJson(), answer.toJson());
  EXPECT_EQ(again->outcome.body, answer.outcome.body);
  EXPECT_FALSE(again->outcome.error);

  answer.outcome.error = Error(Code::FunctionError, "no");
  answer.outcome.failure = FunctionFailure{"ValueError", "no", "trace"};
  again = StoredAnswer::fromJson(answer.toJson());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->outcome.error->code(), Code::FunctionError);
  EXPECT_EQ(again->outcome.failure->trace, "trace");
}

TEST(IdempotencyTest, ErrorsOfThePlatformAreNotKept) {
  ManualClock clock;
  store::memory::MemoryStore store(clock);
  AnswerJournal journal({{"name", "print"}, "node", false, Millis(1000)}, store);
  const CallPtr call = callOf("s");
  for (const Code code : {Code::Unavailable, Code::Internal, Code::QueueFull, Code::Fenced}) {
    call->outcome.error = Error(code, "");
    store::Batch batch;
    journal.addTo(batch, *call);
    EXPECT_TRUE(batch.operations.empty());
  }
  call->outcome.error = Error(Code::Timeout, "");
  store::Batch batch;
  journal.addTo(batch, *call);
  EXPECT_EQ(batch.operations.size(), 1U);
  EXPECT_EQ(batch.listings.size(), 1U);
}

TEST(IdempotencyTest, AKeyInUseIsRefusedUntilItIsGivenBack) {
  KeysInUse keys;
  EXPECT_TRUE(keys.take({"a", "1"}));
  EXPECT_EQ(keys.take({"a", "1"}).error().code(), Code::Conflict);
  EXPECT_EQ(keys.take({"a", "2"}).error().code(), Code::Unprocessable);
  EXPECT_TRUE(keys.take({"b", "1"}));
  keys.release("a");
  EXPECT_TRUE(keys.take({"a", "2"}));
}

TEST(OutboxTest, WhatIsSentComesOutAsItWentIn) {
  const CallPtr call = callOf("s");
  call->attempt = 2;
  call->traceparent = "00-1-2-01";
  call->sent.push_back({"mailer", "alice", R"({ "n" : 1 })", Millis(50)});
  call->sent.push_back({"report", std::nullopt, "null", Millis(0)});
  store::Batch batch;
  addToOutbox(batch, *call);
  ASSERT_EQ(batch.operations.size(), 2U);
  const auto& push = std::get<store::op::Push>(batch.operations[0]);
  EXPECT_EQ(push.id, "r1.2.1");
  const Result<Delivery> delivery = decodeSent(push.id, push.payload);
  ASSERT_TRUE(delivery);
  EXPECT_EQ(delivery->receiver, "mailer");
  EXPECT_EQ(delivery->call->session_key, "alice");
  EXPECT_EQ(delivery->call->payload, R"({ "n" : 1 })");
  EXPECT_EQ(delivery->call->traceparent, "00-1-2-01");
  EXPECT_EQ(delivery->delay, Millis(50));
}

TEST(OutboxTest, WhatCannotBeSentIsRefused) {
  EXPECT_TRUE(checkSent({"f", "s", "1", Millis(0)}));
  EXPECT_FALSE(checkSent({"no function", "s", "1", Millis(0)}));
  EXPECT_FALSE(checkSent({"f", "", "1", Millis(0)}));
  EXPECT_FALSE(checkSent({"f", "s", "1", Millis(-1)}));
}

}  // namespace
}  // namespace nimbus::session
