// The way of a call, with the real memory store and a real process at its end.
//
// The random schedules:
//   NIMBUS_SEED=n        begins with that schedule
//   NIMBUS_SCHEDULES=n   how many, however long they take; otherwise a few

#include "session/calls.h"

#include "base/json.h"
#include "base/testing/manual_clock.h"
#include "base/testing/temporary_directory.h"
#include "runtime/keeper.h"
#include "state/stored.h"
#include "store/memory/memory_store.h"
#include "store/testing/altered_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using Kind = state::Operation::Kind;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Speaks the protocol, and keeps a list of the calls that wrote, in the state of their session.
constexpr const char* kInstance = R"(#!/usr/bin/python3 -IS
import json, os, signal, struct, sys

def send(kind, request, head, *values):
    segments = [json.dumps(head).encode(), *values]
    body = struct.pack("<BBHQ", kind, 0, len(segments), request)
    body += b"".join(struct.pack("<I", len(one)) for one in segments) + b"".join(segments)
    os.write(3, struct.pack("<I", len(body)) + body)

def exactly(n):
    data = b""
    while len(data) < n:
        more = os.read(3, n - len(data))
        if not more: os._exit(0)
        data += more
    return data

def receive():
    body = exactly(struct.unpack("<I", exactly(4))[0])
    kind, _, n, request = struct.unpack_from("<BBHQ", body)
    lengths, at, segments = struct.unpack_from("<%dI" % n, body, 12), 12 + 4 * n, []
    for length in lengths:
        segments.append(body[at:at + length])
        at += length
    return kind, request, json.loads(segments[0]), segments[1:]

held = []
send(1, 0, {"protocol": 1, "pid": os.getpid()})
while True:
    kind, request, head, values = receive()
    if kind == 2: send(3, 0, {})
    if kind != 4: continue
    deed, name = json.loads(values[0])
    state = head.get("state") or {"keys": [], "floor": 0}
    there = {key[0]: (key[1], value) for key, value in zip(state["keys"], values[1:])}
    version, before = there.get("calls", (state["floor"], b"[]"))
    after = json.dumps(json.loads(before) + [name]).encode()
    wrote = {"writes": [["calls", version + 1, 0]]}
    if deed == "write": send(5, request, {"status": 200, **wrote}, before, after)
    if deed == "read": send(5, request, {"status": 200}, before)
    if deed == "raise": send(5, request, {"error": {"type": "E", "message": name}, **wrote}, b"", after)
    if deed == "last": held.append(request)
    else:
        for one in held: send(5, one, {"status": 200}, b"0")
        held.clear()
    if deed == "crash": os._exit(3)
    if deed == "hang": signal.pause()
    if deed == "cheat": send(5, request, {"status": 200, "writes": [["calls", version, 0]]}, b"1", b"2")
)";

// Some of its commits find no room.
class CrampedStore final : public store::AlteredStore {
 public:
  using AlteredStore::AlteredStore;

  // One commit in so many is refused; 0: none.
  std::atomic<std::uint64_t> refuse_one_in = 0;
  std::atomic<std::uint64_t> refused = 0;

 private:
  store::PendingCommit begin(store::CommitOrder order) override {
    const std::uint64_t one_in = refuse_one_in.load();
    if (one_in == 0 || random_.below(one_in) != 0) return passOn(std::move(order));
    ++refused;
    return refuse(std::move(order), Error(Code::InsufficientStorage, "no room"));
  }

  SystemRandom random_;
};

class CallsTest : public ::testing::Test {
 protected:
  // A call as its caller sees it, once all that it depends on is durable.
  struct Answered {
    CallPtr call;
    std::optional<Outcome> outcome;

    bool isOk() const { return !outcome->error; }
    Code code() const { return outcome->error->code(); }
  };

  explicit CallsTest(Cache cache = {}) : keeper_(*runtime::Keeper::start()), threads_(2) {
    keeper_->listen(threads_.executor(0));
    const auto program = directory_.path() / "instance";
    std::ofstream(program) << kInstance;
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    runtime::Command command;
    command.arguments = {program.string()};
    command.directory = "/";
    function_ = std::make_shared<FunctionSpec>();
    function_->id = "list";
    function_->launcher =
        std::make_shared<runtime::ProgramLauncher>(*keeper_, std::move(command), runtime::Home{});
    function_->rules.default_ttl.reset();
    Calls::Parts parts{"node",   store_,
                       *keeper_, clock_,
                       random_,  [this](std::string_view) { return FunctionPtr(function_); }};
    parts.cache = cache;
    calls_.emplace(std::move(parts), threads_);
  }
  ~CallsTest() override { stop(); }

  template <typename T>
  T finish(Task<T> task) {
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    run();
    return result.get();
  }
  void run() {
    context_.restart();
    context_.run();
  }
  void stop() {
    if (!calls_) return;
    finish(calls_->stop());
    threads_.stop();
    calls_.reset();
  }

  CallPtr newCall(std::optional<std::string> session) {
    CallPtr call(new Call);
    call->function = function_;
    call->request_id = fmt::format("r{}", ++requests_);
    call->session_key = std::move(session);
    call->timeout = Millis(20'000);
    return call;
  }
  CallPtr doing(std::string_view deed, std::optional<std::string> session) {
    CallPtr call = newCall(std::move(session));
    call->payload = fmt::format(R"(["{}","{}"])", deed, call->request_id);
    if (deed == "hang") call->timeout = Millis(30);
    return call;
  }
  CallPtr operation(Kind kind, std::string key, std::string session) {
    CallPtr call = newCall(std::move(session));
    call->operation = state::Operation{.kind = kind, .key = std::move(key)};
    return call;
  }

  static Task<> settle(CallPtr call, std::optional<Outcome>& to) {
    co_await call->settled.wait();
    to = std::move(call->outcome);
  }

  // Submits all of them, in that order, and waits for all answers.
  std::vector<Answered> answersTo(const std::vector<CallPtr>& calls) {
    std::vector<Answered> answered(calls.size());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      answered[i].call = calls[i];
      const Result<> taken = calls_->submit(calls[i]);
      if (!taken) {
        answered[i].outcome.emplace();
        answered[i].outcome->error = taken.error();
        continue;
      }
      asio::co_spawn(context_, settle(calls[i], answered[i].outcome), asio::detached);
    }
    run();
    return answered;
  }
  Outcome answerTo(const CallPtr& call) { return *answersTo({call}).front().outcome; }

  TemporaryDirectory directory_;
  ManualClock time_;
  store::memory::MemoryStore memory_{time_};
  CrampedStore store_{memory_};
  SystemSteadyClock clock_;
  SystemRandom random_;
  std::unique_ptr<runtime::Keeper> keeper_;
  Threads threads_;
  asio::io_context context_;
  std::shared_ptr<FunctionSpec> function_;
  std::optional<Calls> calls_;
  int requests_ = 0;
};

TEST_F(CallsTest, CallsOfASessionSeeWhatCameBeforeAndAreNumbered) {
  const auto answers = answersTo({doing("write", "s"), doing("write", "s"), doing("read", "s")});
  EXPECT_EQ(answers[0].outcome->body, "[]");
  EXPECT_EQ(answers[1].outcome->body, R"(["r1"])");
  EXPECT_EQ(answers[2].outcome->body, R"(["r1", "r2"])");
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(answers[i].outcome->seq, i + 1);
    EXPECT_EQ(answers[i].outcome->instance, answers[0].outcome->instance);
  }
}

TEST_F(CallsTest, AFailedCallKeepsItsNumberAndLeavesNothing) {
  const auto answers = answersTo({doing("raise", "s"), doing("crash", "s"), doing("hang", "s"),
                                  doing("cheat", "s"), doing("read", "s")});
  EXPECT_EQ(answers[0].code(), Code::FunctionError);
  EXPECT_EQ(answers[0].outcome->failure->message, "r1");
  EXPECT_EQ(answers[1].code(), Code::FunctionCrashed);
  EXPECT_THAT(answers[1].outcome->error->message(), HasSubstr("exited with 3"));
  EXPECT_EQ(answers[2].code(), Code::Timeout);
  EXPECT_EQ(answers[3].code(), Code::FunctionError);
  EXPECT_EQ(answers[4].outcome->body, "[]");
  for (std::size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].outcome->seq, i + 1);
}

TEST_F(CallsTest, WhatARaisedErrorWroteIsKeptIfTheFunctionSaysSo) {
  function_->on_error = OnError::Keep;
  const auto answers = answersTo({doing("raise", "s"), doing("read", "s")});
  EXPECT_EQ(answers[0].code(), Code::FunctionError);
  EXPECT_EQ(answers[1].outcome->body, R"(["r1"])");
}

TEST_F(CallsTest, OperationsTakeTheirPlaceInTheOrderAndWritesANumber) {
  const auto answers =
      answersTo({operation(Kind::Incr, "n", "s"), doing("write", "s"),
                 operation(Kind::Incr, "n", "s"), operation(Kind::Get, "calls", "s")});
  EXPECT_EQ(answers[0].outcome->answer.number, 1);
  EXPECT_EQ(answers[2].outcome->answer.number, 2);
  EXPECT_EQ(answers[2].outcome->seq, 3U);
  EXPECT_EQ(answers[3].outcome->answer.found.front().value, R"(["r2"])");
  EXPECT_EQ(answers[3].outcome->seq, 0U) << "a look takes none";
}

TEST_F(CallsTest, AStatelessCallHasNoPlaceInAnyOrder) {
  const Outcome outcome = answerTo(doing("read", std::nullopt));
  EXPECT_EQ(outcome.body, "[]");
  EXPECT_EQ(outcome.seq, 0U);
}

TEST_F(CallsTest, ALineHasAnEndAndABusySessionMayBeRefused) {
  function_->max_waiting = 1;
  CallPtr impatient = doing("read", "s");
  impatient->only_if_idle = true;
  const auto answers =
      answersTo({doing("hang", "s"), doing("read", "s"), doing("read", "s"), impatient});
  EXPECT_EQ(answers[2].code(), Code::QueueFull);
  EXPECT_EQ(answers[2].outcome->error->field("queue_length", 0), 1);
  EXPECT_EQ(answers[3].code(), Code::Conflict);
  EXPECT_EQ(answers[1].outcome->seq, 2U) << "who was refused has taken no number";
  EXPECT_EQ(answerTo(doing("read", "s")).seq, 3U);
}

TEST_F(CallsTest, ADeletedSessionBeginsAnew) {
  answersTo({doing("write", "s"), doing("write", "other")});
  ASSERT_TRUE(finish(calls_->remove("list", "s")));
  EXPECT_EQ(finish(calls_->show("list", "s")).error().code(), Code::NotFound);
  const Outcome outcome = answerTo(doing("read", "s"));
  EXPECT_EQ(outcome.body, "[]");
  EXPECT_EQ(outcome.seq, 1U);
  EXPECT_EQ(answerTo(doing("read", "other")).seq, 2U);
}

TEST_F(CallsTest, ACallThatRunsWhileItsSessionIsDeletedIsFencedAndThoseThatWaitNeverRun) {
  CallPtr running = doing("hang", "s");
  running->timeout = Millis(300);
  CallPtr waiting = doing("write", "s");
  ASSERT_TRUE(calls_->submit(running));
  while (calls_->counts().instances.load() == 0) std::this_thread::yield();
  ASSERT_TRUE(calls_->submit(waiting));
  ASSERT_TRUE(finish(calls_->remove("list", "s")));
  std::optional<Outcome> first, second;
  asio::co_spawn(context_, settle(running, first), asio::detached);
  asio::co_spawn(context_, settle(waiting, second), asio::detached);
  run();
  EXPECT_TRUE(first->error);
  EXPECT_EQ(second->error->code(), Code::Conflict);
  EXPECT_EQ(answerTo(doing("read", "s")).seq, 1U);
}

TEST_F(CallsTest, ASessionIsOverAfterItsTimeAndItsNumbersGoOn) {
  function_->session_timeout = Millis(1000);
  EXPECT_EQ(answerTo(doing("write", "s")).seq, 1U);
  EXPECT_TRUE(finish(calls_->show("list", "s")));
  time_.advance(Millis(1000));
  EXPECT_EQ(finish(calls_->show("list", "s")).error().code(), Code::NotFound);
  const Outcome outcome = answerTo(doing("read", "s"));
  EXPECT_EQ(outcome.seq, 2U);
  EXPECT_EQ(outcome.body, R"(["r1"])") << "its state has an expiry of its own";
}

// An instance that runs one call at a time should answer in order. One that does not is served all
// the same.
TEST_F(CallsTest, WhoeverIsAnsweredOutOfTurnIsAnswered) {
  function_->max_instances = 1;
  const auto answers = answersTo({doing("last", "a"), doing("read", "b")});
  ASSERT_TRUE(answers[0].isOk() && answers[1].isOk());
  EXPECT_EQ(answers[0].outcome->body, "0");
  EXPECT_EQ(answers[1].outcome->body, "[]");
}

// Whatever had not begun when an instance died is given to another, and keeps its number.
TEST_F(CallsTest, CallsThatWereGivenAheadSurviveTheirInstance) {
  function_->max_instances = 1;
  for (const char* key : {"a", "b", "c"}) ASSERT_FALSE(answerTo(doing("read", key)).error);
  const auto answers = answersTo(
      {doing("crash", "a"), doing("write", "b"), doing("write", "c"), doing("read", "b")});
  EXPECT_EQ(answers[0].code(), Code::FunctionCrashed);
  for (std::size_t i = 1; i < answers.size(); ++i) ASSERT_TRUE(answers[i].isOk()) << i;
  EXPECT_EQ(answers[1].outcome->seq, 2U);
  EXPECT_EQ(answers[3].outcome->seq, 3U);
  EXPECT_NE(answers[1].outcome->instance, answers[0].outcome->instance);
}

// Deadlines run from a call's turn: one that waits behind a slow one has its whole time.
TEST_F(CallsTest, ACallThatHangsTakesNoTimeOfThoseBehindIt) {
  function_->max_instances = 1;
  for (const char* key : {"a", "b"}) ASSERT_FALSE(answerTo(doing("read", key)).error);
  CallPtr behind = doing("write", "b");
  behind->timeout = Millis(40);
  CallPtr hangs = doing("hang", "a");
  hangs->timeout = Millis(200);
  const auto answers = answersTo({hangs, behind});
  EXPECT_EQ(answers[0].code(), Code::Timeout);
  EXPECT_TRUE(answers[1].isOk());
}

TEST_F(CallsTest, SessionsAreListedInPages) {
  for (const char* key : {"a", "b", "c"}) answerTo(doing("write", key));
  const auto page = finish(calls_->list("list", "", 2));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->items.size(), 2U);
  EXPECT_EQ(page->items[1].session_key, "b");
  EXPECT_THAT(page->items[1].state_keys, ElementsAre("calls"));
  EXPECT_EQ(finish(calls_->list("list", *page->next, 2))->items.front().session_key, "c");
}

TEST_F(CallsTest, WhenCommitsFindNoRoomTheReasonIsToldAndTheSessionGoesOnAfter) {
  EXPECT_EQ(answerTo(doing("write", "s")).seq, 1U);
  store_.refuse_one_in = 1;
  std::vector<CallPtr> calls;
  for (int i = 0; i < 20; ++i) calls.push_back(doing("write", "s"));
  for (const Answered& one : answersTo(calls)) {
    ASSERT_FALSE(one.isOk());
    EXPECT_EQ(one.code(), Code::InsufficientStorage);
  }
  store_.refuse_one_in = 0;
  const Outcome outcome = answerTo(doing("read", "s"));
  EXPECT_EQ(outcome.body, R"(["r1"])");
  EXPECT_GT(outcome.seq, 1U);
}

TEST_F(CallsTest, WhoWaitsWhenTheServerStopsIsToldSo) {
  CallPtr running = doing("hang", "s");
  running->timeout = Millis(20'000);
  CallPtr waiting = doing("write", "s");
  ASSERT_TRUE(calls_->submit(running));
  ASSERT_TRUE(calls_->submit(waiting));
  std::optional<Outcome> first, second;
  asio::co_spawn(context_, settle(running, first), asio::detached);
  asio::co_spawn(context_, settle(waiting, second), asio::detached);
  stop();
  EXPECT_TRUE(first && first->error);
  EXPECT_TRUE(second && second->error);
}

// ---- Random schedules

// What one session is to hold, by what was answered in the order of submission.
struct Expected {
  std::vector<std::string> calls;
  std::int64_t count = 0;
  std::uint64_t last_number = 0;

  std::string listed() const {
    std::string text = "[";
    for (const std::string& call : calls) {
      if (text.size() > 1) text += ", ";
      text += '"' + call + '"';
    }
    return text + "]";
  }
};

class ScheduleTest : public CallsTest {
 protected:
  using CallsTest::CallsTest;

  enum class Trouble : std::uint8_t { None, NoRoom, Thieves };

  void runSchedule(std::uint64_t seed, Trouble trouble) {
    SeededRandom random(seed);
    sessions_.clear();
    for (int round = 0; round < 6 && !HasFailure(); ++round) {
      store_.refuse_one_in = trouble == Trouble::NoRoom && round % 2 == 1 ? 6 : 0;
      stealing_ = trouble == Trouble::Thieves && round % 2 == 1;
      std::thread thief([this, seed, round] {
        SeededRandom choice(seed + 1000 + static_cast<std::uint64_t>(round));
        while (stealing_) steal(fmt::format("s{}", choice.below(kSessions)));
      });
      const auto answers = answersTo(someCalls(random));
      stealing_ = false;
      thief.join();
      for (const Answered& one : answers) judge(one, trouble);
      store_.refuse_one_in = 0;
      if (random.below(2) == 0) removeOne(random);
    }
    for (auto& [key, expected] : sessions_) compareWithTheStore(key, expected);
  }

  static constexpr std::uint64_t kSessions = 4;

 private:
  std::vector<CallPtr> someCalls(SeededRandom& random) {
    std::vector<CallPtr> calls;
    for (int i = 0; i < 40; ++i) {
      const std::string session = fmt::format("s{}", random.below(kSessions));
      const std::uint64_t choice = random.below(100);
      if (choice < 45) {
        calls.push_back(doing("write", session));
      } else if (choice < 65) {
        calls.push_back(doing("read", session));
      } else if (choice < 73) {
        calls.push_back(doing("raise", session));
      } else if (choice < 75) {
        calls.push_back(doing("crash", session));
      } else if (choice < 76) {
        calls.push_back(doing("hang", session));
      } else if (choice < 78) {
        calls.push_back(doing("cheat", session));
      } else if (choice < 90) {
        calls.push_back(operation(Kind::Incr, "n", session));
      } else {
        calls.push_back(operation(Kind::Get, "n", session));
      }
    }
    return calls;
  }

  // Another owner takes the session over, as it would for a call of its own.
  void steal(const std::string& key) {
    asio::io_context context;
    auto done = asio::co_spawn(context, stealing(key), asio::use_future);
    context.run();
    done.get();
  }
  Task<> stealing(std::string key) {
    const store::Partition partition = sessionPartition("list", key);
    std::vector<store::Query> queries;
    queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
    auto answers = co_await store_.read(partition, std::move(queries));
    const auto record = std::get<std::optional<store::Record>>((*answers)[0]);
    if (!record) co_return;
    store::op::Put put;
    put.space = kSessionSpace;
    put.key = kSessionRecord;
    put.value = record->value;
    put.expected = record->version;
    put.version = versionOfClaim(record->version);
    store::Batch batch;
    batch.operations.emplace_back(std::move(put));
    store::PendingCommit commit = store_.commit(partition, std::nullopt, std::move(batch));
    static_cast<void>(co_await commit.done());
  }

  // In the order of submission, which is that of each session.
  void judge(const Answered& one, Trouble trouble) {
    const Call& call = *one.call;
    const Outcome& outcome = *one.outcome;
    Expected& expected = sessions_[*call.session_key];
    const std::string what =
        fmt::format("{} {} {}", *call.session_key, call.request_id, call.payload);
    SCOPED_TRACE(what);
    if (outcome.seq != 0) {
      EXPECT_GT(outcome.seq, expected.last_number) << "numbers grow";
      expected.last_number = outcome.seq;
    }
    if (outcome.error && isOfThePlatform(outcome.error->code())) {
      // It did not happen. Nobody but the cause is named.
      if (trouble == Trouble::NoRoom) {
        EXPECT_EQ(outcome.error->code(), Code::InsufficientStorage);
      } else {
        EXPECT_EQ(trouble, Trouble::Thieves) << outcome.error->message();
        EXPECT_NE(outcome.error->code(), Code::InsufficientStorage);
      }
      return;
    }
    if (call.operation) {
      ASSERT_FALSE(outcome.error) << outcome.error->message();
      if (call.operation->kind == Kind::Incr) {
        EXPECT_EQ(outcome.answer.number, ++expected.count);
        EXPECT_NE(outcome.seq, 0U);
      } else {
        const auto& found = outcome.answer.found;
        EXPECT_EQ(found.empty() ? "0" : found.front().value, std::to_string(expected.count));
      }
      return;
    }
    EXPECT_NE(outcome.seq, 0U) << "whoever ran has a number";
    if (call.payload.starts_with(R"(["write")")) {
      ASSERT_FALSE(outcome.error) << outcome.error->message();
      EXPECT_EQ(outcome.body, expected.listed());
      expected.calls.push_back(call.request_id);
    } else if (call.payload.starts_with(R"(["read")")) {
      ASSERT_FALSE(outcome.error) << outcome.error->message();
      EXPECT_EQ(outcome.body, expected.listed());
    } else {
      ASSERT_TRUE(outcome.error);
      const Code code = call.payload.starts_with(R"(["crash")")  ? Code::FunctionCrashed
                        : call.payload.starts_with(R"(["hang")") ? Code::Timeout
                                                                 : Code::FunctionError;
      EXPECT_EQ(outcome.error->code(), code) << outcome.error->message();
    }
  }

  static bool isOfThePlatform(Code code) {
    return code != Code::FunctionError && code != Code::FunctionCrashed && code != Code::Timeout;
  }

  void removeOne(SeededRandom& random) {
    const std::string key = fmt::format("s{}", random.below(kSessions));
    ASSERT_TRUE(finish(calls_->remove("list", key)));
    sessions_.erase(key);
  }

  void compareWithTheStore(const std::string& key, const Expected& expected) {
    SCOPED_TRACE(key);
    const auto stored =
        finish(store::getRecord(store_, sessionPartition("list", key), state::kSpace, "calls"));
    ASSERT_TRUE(stored);
    EXPECT_EQ(*stored ? (*stored)->value : "[]", expected.listed());
    const auto view = finish(calls_->show("list", key));
    if (expected.last_number == 0) return;
    ASSERT_TRUE(view);
    EXPECT_GT(view->next_number, expected.last_number);
  }

  std::map<std::string, Expected> sessions_;
  std::atomic<bool> stealing_ = false;
};

std::optional<std::uint64_t> fromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::optional(std::strtoull(text, nullptr, 10)) : std::nullopt;
}

// With room for all sessions in memory, and with room for those alone that are being called.
class RandomScheduleTest : public ScheduleTest, public ::testing::WithParamInterface<std::size_t> {
 protected:
  RandomScheduleTest() : ScheduleTest(Cache{Millis(30'000), GetParam()}) {}

  void runSome(Trouble trouble) {
    const std::uint64_t first =
        fromEnvironment("NIMBUS_SEED").value_or(random_.next() % 1'000'000'000);
    // Each starts processes; a few find what there is to find.
    const std::uint64_t many =
        std::min<std::uint64_t>(fromEnvironment("NIMBUS_SCHEDULES").value_or(8), 50);
    std::printf("NIMBUS_SEED=%llu\n", static_cast<unsigned long long>(first));
    for (std::uint64_t seed = first; seed < first + many && !HasFailure(); ++seed) {
      SCOPED_TRACE(fmt::format("NIMBUS_SEED={} NIMBUS_SCHEDULES=1", seed));
      for (std::uint64_t one = 0; one < kSessions; ++one) {
        ASSERT_TRUE(finish(calls_->remove("list", fmt::format("s{}", one))));
      }
      runSchedule(seed, trouble);
    }
  }
};

TEST_P(RandomScheduleTest, CallsAreAnsweredAsTheModelSays) {
  runSome(Trouble::None);
}

TEST_P(RandomScheduleTest, CommitsThatFindNoRoomLoseOnlyWhatWasRefused) {
  runSome(Trouble::NoRoom);
  EXPECT_GT(store_.refused.load(), 0U);
}

TEST_P(RandomScheduleTest, ASessionThatAnotherTakesOverLosesOnlyWhatWasRefused) {
  runSome(Trouble::Thieves);
}

INSTANTIATE_TEST_SUITE_P(Rooms, RandomScheduleTest, ::testing::Values(0, 1),
                         [](const auto& room) { return room.param == 0 ? "Ample" : "Scarce"; });

}  // namespace
}  // namespace nimbus::session
