#include "session/invoke_frame.h"

#include "base/json.h"
#include "runtime/frame.h"

#include <gmock/gmock.h>

#include <cstring>

namespace nimbus::session {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Kind = state::Operation::Kind;

constexpr Timestamp kNow{Millis(1'789'999'970'000)};
constexpr Timestamp kDeadline{Millis(1'790'000'000'000)};

// A frame, and the bytes it lies in.
class Sent {
 public:
  explicit Sent(std::string bytes) : bytes_(std::move(bytes)) {
    const std::string_view all = bytes_;
    for (std::size_t done = 0; done < all.size();) {
      const std::span<char> room = reader_.room();
      const std::size_t part = std::min(room.size(), all.size() - done);
      std::memcpy(room.data(), all.data() + done, part);
      reader_.received(part);
      done += part;
    }
    auto next = reader_.next();
    frame_ = **next;
    EXPECT_FALSE(*reader_.next()) << "one frame and nothing else";
  }
  const runtime::Frame* operator->() const { return &frame_; }

 private:
  std::string bytes_;
  runtime::FrameReader reader_;
  runtime::Frame frame_;
};

class InvokeFrameTest : public ::testing::Test {
 protected:
  InvokeFrameTest() {
    auto function = std::make_shared<FunctionSpec>();
    function->id = "cart";
    function->version = 3;
    call_.function = function;
    call_.request_id = "r1";
    call_.session_key = "al\"ice";
    call_.payload = R"({"a" : 1})";
    call_.outcome.seq = 17;
    call_.timeout = kDeadline - kNow;
  }

  std::string bytesOf(const state::Space* space) const {
    std::string out;
    writeInvoke(out, 9, call_, space, kNow);
    return out;
  }
  Sent invoke(const state::Space* space) const { return Sent(bytesOf(space)); }

  static void load(state::Space& space, std::string key, std::string value, state::Version version,
                   std::optional<Timestamp> expires_at = std::nullopt) {
    space.load(std::move(key), {std::move(value), version, expires_at, std::nullopt});
  }

  static std::vector<std::string> keysOf(const Sent& frame) {
    std::vector<std::string> keys;
    const auto head = parseJson(frame->head);
    for (const JsonValue& one : head->member("state")->member("keys")->elements()) {
      keys.emplace_back(*one.elements()[0].string());
    }
    return keys;
  }
  static bool isComplete(const Sent& frame) {
    return frame->head.find(R"("complete":true)") != std::string_view::npos;
  }

  Call call_;
};

TEST_F(InvokeFrameTest, ASmallStateGoesAlongWhole) {
  state::Space space(4);
  load(space, "items", "[1, 2]", 12, Timestamp(Millis(1'790'003'570'000)));
  load(space, "name", "\"x\"", 2);
  const Sent frame = invoke(&space);
  EXPECT_EQ(frame->type, runtime::FrameType::Invoke);
  EXPECT_EQ(frame->request, 9U);
  EXPECT_EQ(
      frame->head,
      R"({"context":{"request_id":"r1","function_id":"cart","version":3,"session_key":"al\"ice",)"
      R"("session_seq":17,"attempt":1,"deadline_ms":1790000000000,"traceparent":null},)"
      R"("now":1789999970000,"state":{"floor":4,"complete":true,)"
      R"("keys":[["items",12,1790003570000,6],["name",2,0,3]]}})");
  EXPECT_THAT(frame->values, ElementsAre(R"({"a" : 1})", "[1, 2]", "\"x\""));
}

TEST_F(InvokeFrameTest, AnEmptyStateIsComplete) {
  const state::Space space;
  const Sent frame = invoke(&space);
  EXPECT_THAT(std::string(frame->head),
              ::testing::HasSubstr(R"("state":{"floor":0,"complete":true,"keys":[]})"));
  EXPECT_THAT(frame->values, SizeIs(1));
}

TEST_F(InvokeFrameTest, AStatelessCallHasNeitherSessionNorState) {
  call_.session_key.reset();
  call_.traceparent = "00-aa-bb-01";
  const Sent frame = Sent(bytesOf(nullptr));
  EXPECT_EQ(frame->head,
            R"({"context":{"request_id":"r1","function_id":"cart","version":3,"session_key":null,)"
            R"("session_seq":null,"attempt":1,"deadline_ms":1790000000000,)"
            R"("traceparent":"00-aa-bb-01"},"now":1789999970000})");
  EXPECT_THAT(frame->values, SizeIs(1));
}

TEST_F(InvokeFrameTest, OfALargerStateWhatFitsGoesAlongAndTheRestIsListed) {
  state::Space space;
  load(space, "a", std::string(10'000, '1'), 1);
  load(space, "b", std::string(10'000, '2'), 2);
  load(space, "c", std::string(6'000, '3'), 3);
  const Sent frame = invoke(&space);
  EXPECT_TRUE(isComplete(frame));
  EXPECT_THAT(keysOf(frame), ElementsAre("a", "c", "b")) << "those whose values go along are first";
  ASSERT_THAT(frame->values, SizeIs(3));
  EXPECT_EQ(frame->values[1], std::string(10'000, '1'));
  EXPECT_EQ(frame->values[2], std::string(6'000, '3'));
}

TEST_F(InvokeFrameTest, OfAHugeStateOnlyWhatGoesAlongIsListed) {
  state::Space space;
  for (int i = 0; i < 3000; ++i) load(space, std::to_string(10'000 + i), std::string(100, '7'), 1);
  const Sent frame = invoke(&space);
  EXPECT_FALSE(isComplete(frame));
  const std::size_t along = frame->values.size() - 1;
  EXPECT_EQ(along, 16U * 1024 / 100);
  EXPECT_THAT(keysOf(frame), SizeIs(along));
}

TEST_F(InvokeFrameTest, AFrameIsAppendedToWhatIsThere) {
  const state::Space space;
  std::string out = "before";
  writeInvoke(out, 9, call_, &space, kNow);
  EXPECT_EQ(out, "before" + bytesOf(&space));
}

TEST_F(InvokeFrameTest, WhatDidNotGoAlongIsLoadedByName) {
  state::Space space;
  load(space, "a", "1", 1);
  load(space, "b", "22", 2);
  const std::vector<std::string> wanted = {"b", "missing", "a"};
  std::string named;
  writeLoaded(named, 9, 5, space, &wanted);
  const Sent some(named);
  EXPECT_EQ(some->type, runtime::FrameType::State);
  EXPECT_EQ(some->head, R"({"id":5,"success":true,"keys":[["b",2,0,2],["a",1,0,1]]})");
  EXPECT_THAT(some->values, ElementsAre("22", "1"));
  std::string unnamed;
  writeLoaded(unnamed, 9, 6, space, nullptr);
  const Sent all(unnamed);
  EXPECT_EQ(all->head, R"({"id":6,"success":true,"keys":[["a",1,0,1],["b",2,0,2]]})");
  EXPECT_THAT(all->values, IsEmpty());
}

std::string reply(Kind kind, const Result<state::Answer>& answer,
                  std::vector<std::string>* values = nullptr) {
  std::string out;
  writeStateReply(out, 1, 2, kind, answer);
  const Sent frame(out);
  if (values != nullptr) values->assign(frame->values.begin(), frame->values.end());
  return std::string(frame->head);
}

TEST(StateReplyTest, EachKindAnswersWithItsOwnPart) {
  state::Answer answer;
  answer.version = 3;
  answer.versions = {3, 4};
  answer.number = -5;
  answer.flag = true;
  answer.ttl = 1.5;
  EXPECT_EQ(reply(Kind::Set, answer), R"({"id":2,"success":true,"version":3})");
  EXPECT_EQ(reply(Kind::Incr, answer), R"({"id":2,"success":true,"version":3,"value":-5})");
  EXPECT_EQ(reply(Kind::Exists, answer), R"({"id":2,"success":true,"version":3,"value":true})");
  EXPECT_EQ(reply(Kind::Ttl, answer), R"({"id":2,"success":true,"version":3,"value":1.5})");
  EXPECT_EQ(reply(Kind::SetMany, answer),
            R"({"id":2,"success":true,"version":3,"versions":[3,4]})");
  answer.keys = {"a", "\""};
  EXPECT_EQ(reply(Kind::Keys, answer), R"({"id":2,"success":true,"version":3,"value":["a","\""]})");
}

TEST(StateReplyTest, ValuesAreSegments) {
  state::Answer answer;
  answer.found = {{"a", "[1 ]", 1}, {"b", "2", 2}};
  std::vector<std::string> values;
  EXPECT_EQ(reply(Kind::GetMany, answer, &values),
            R"({"id":2,"success":true,"version":0,"keys":["a","b"]})");
  EXPECT_THAT(values, ElementsAre("[1 ]", "2"));
  EXPECT_EQ(reply(Kind::Get, state::Answer(), &values), R"({"id":2,"success":true,"version":0})");
  EXPECT_THAT(values, IsEmpty()) << "no segment if there is none";
}

TEST(StateReplyTest, AnErrorSaysItsCodeAndTheVersionThatIsThere) {
  EXPECT_EQ(reply(Kind::Get, Error(Code::NotFound, "none")),
            R"({"id":2,"success":false,"error":"not_found","message":"none"})");
  EXPECT_EQ(
      reply(Kind::Set, Error(Code::VersionConflict, "old").with("current_version", 7)),
      R"({"id":2,"success":false,"error":"version_conflict","message":"old","current_version":7})");
}

}  // namespace
}  // namespace nimbus::session
