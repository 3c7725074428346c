#include "session/gate.h"

#include <gmock/gmock.h>

namespace nimbus::session {
namespace {

// The test decides when a commit ends, and how.
class GateTest : public ::testing::Test {
 protected:
  GatePtr begin() const { return std::make_shared<Gate>(chain_); }

  static CallPtr callAt(const GatePtr& gate) {
    CallPtr call(new Call);
    auto function = std::make_shared<FunctionSpec>();
    function->id = "cart";
    call->function = function;
    call->session_key = "alice";
    call->outcome.seq = 7;
    call->outcome.body = "17";
    gate->settle(call);
    return call;
  }

  static bool isOk(const CallPtr& call) { return call->settled.isSet() && !call->outcome.error; }
  static std::optional<Code> codeOf(const CallPtr& call) {
    if (!call->settled.isSet() || !call->outcome.error) return std::nullopt;
    return call->outcome.error->code();
  }
  static Error full() { return {Code::InsufficientStorage, "full"}; }

  const std::shared_ptr<Chain> chain_ = std::make_shared<Chain>();
};

TEST_F(GateTest, OpensForAllWhenTheCommitIsDurableAndNotBefore) {
  const GatePtr gate = begin();
  const CallPtr first = callAt(gate);
  const CallPtr second = callAt(gate);
  EXPECT_FALSE(first->settled.isSet());
  EXPECT_EQ(gate->state(), Gate::State::Closed);
  gate->onEnd({});
  EXPECT_TRUE(isOk(first) && isOk(second));
  EXPECT_EQ(first->outcome.seq, 7U);
  EXPECT_EQ(gate->state(), Gate::State::Open);
  EXPECT_FALSE(gate->hasFailed());
}

TEST_F(GateTest, WhoComesLateIsSettledAtOnce) {
  const GatePtr open = begin();
  open->onEnd({});
  EXPECT_TRUE(isOk(callAt(open)));
  const GatePtr failed = begin();
  failed->onEnd(full());
  EXPECT_EQ(codeOf(callAt(failed)), Code::InsufficientStorage);
}

TEST_F(GateTest, AllHearWhyACommitFailedAndHaveNoNumber) {
  const GatePtr gate = begin();
  const CallPtr call = callAt(gate);
  call->outcome.failure = FunctionFailure{"ValueError", "of its own", ""};
  gate->onEnd(full());
  EXPECT_EQ(codeOf(call), Code::InsufficientStorage);
  EXPECT_EQ(call->outcome.seq, 0U) << "the session, loaded again, may give it to another";
  EXPECT_FALSE(call->outcome.failure);
  EXPECT_EQ(gate->state(), Gate::State::Failed);
}

TEST_F(GateTest, AnotherOwnerIsToldByOneName) {
  const GatePtr gate = begin();
  const CallPtr call = callAt(gate);
  gate->onEnd(Error(Code::VersionConflict, "has version 9, not 4"));
  EXPECT_EQ(codeOf(call), Code::Fenced);
}

TEST_F(GateTest, WhatBuildsOnALostCommitIsLostAtOnceThoughNobodyKnowsItsOwnEnd) {
  const GatePtr first = begin();
  const GatePtr second = begin();
  first->onEnd(full());
  EXPECT_TRUE(second->hasFailed());
  EXPECT_EQ(second->state(), Gate::State::Closed);
  EXPECT_FALSE(Gate(std::make_shared<Chain>()).hasFailed()) << "a new beginning";
}

TEST_F(GateTest, WhatFailsBehindALostCommitFailsForItsReason) {
  const GatePtr first = begin();
  const GatePtr second = begin();
  const CallPtr call = callAt(second);
  first->onEnd(full());
  second->onEnd(Error(Code::Conflict, "the commit that this one builds on was lost"));
  EXPECT_EQ(codeOf(call), Code::InsufficientStorage);
}

TEST_F(GateTest, WhatFailsBehindADurableCommitFailsForItsOwnReason) {
  const GatePtr first = begin();
  const GatePtr second = begin();
  const CallPtr before = callAt(first);
  const CallPtr after = callAt(second);
  first->onEnd({});
  second->onEnd(Error(Code::VersionConflict, "taken over"));
  EXPECT_TRUE(isOk(before));
  EXPECT_EQ(codeOf(after), Code::Fenced);
}

}  // namespace
}  // namespace nimbus::session
