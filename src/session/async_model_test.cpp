// Asynchronous calls against a plain model: schedules of calls of both kinds, cancels, replays,
// pauses, restarts and commits that find no room, drawn at random, with real processes at their
// end.
//
// The model knows of each call what it is told to do, what its callers were answered, and that the
// calls of a session happen one after the other in the order of their numbers. Everything else
// follows: what the session holds at the end, and what is known of each call.
//
//   NIMBUS_SEED=n        begins with that schedule
//   NIMBUS_SCHEDULES=n   how many, however long they take; otherwise a few

#include "base/json.h"
#include "base/testing/temporary_directory.h"
#include "runtime/keeper.h"
#include "runtime/launcher.h"
#include "session/calls.h"
#include "state/stored.h"
#include "store/memory/memory_store.h"
#include "store/testing/altered_store.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <thread>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using Status = InvocationRecord::Status;

// Speaks the protocol. A call appends its name and number to a list in its session, unless it is to
// fail first: the first N attempts raise or crash, or every one answers 422. With the file `healed`
// all go well.
constexpr const char* kInstance = R"(#!/usr/bin/python3 -IS
import json, os, struct, sys, time

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

send(1, 0, {"protocol": 1, "pid": os.getpid()})
while True:
    kind, request, head, values = receive()
    if kind == 2: send(3, 0, {})
    if kind != 4: continue
    deed, bad, name = json.loads(values[0])
    state = head["state"]
    there = {key[0]: (key[1], value) for key, value in zip(state["keys"], values[1:])}
    version, before = there.get("calls", (state["floor"], b"[]"))
    number, attempt = head["context"]["session_seq"], head["context"]["attempt"]
    after = json.dumps(json.loads(before) + [[name, number]]).encode()
    wrote = {"writes": [["calls", version + 1, 0]]}
    fails = attempt <= bad and not os.path.exists(sys.argv[1])
    if deed == "slow": time.sleep(0.02)
    if fails and deed == "raise": send(5, request, {"error": {"type": "E", "message": name}, **wrote}, b"", after)
    elif fails and deed == "crash": os._exit(3)
    elif fails and deed == "status": send(5, request, {"status": 422}, b'"no"')
    else: send(5, request, {"status": 200, **wrote}, before, after)
)";

// Some of its commits find no room.
class CrampedStore final : public store::AlteredStore {
 public:
  using AlteredStore::AlteredStore;

  std::atomic<std::uint64_t> refuse_one_in = 0;  // 0: none
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

// A server, for as long as this lives.
struct Running {
  Running(CrampedStore& store, const std::string& program, const std::string& healed,
          const FunctionSpec& spec)
      : keeper(*runtime::Keeper::start()), threads(2) {
    keeper->listen(threads.executor(0));
    runtime::Command command;
    command.arguments = {program, healed};
    command.directory = "/";
    auto made = std::make_shared<FunctionSpec>(spec);
    made->metrics = std::make_shared<FunctionMetrics>();
    made->launcher =
        std::make_shared<runtime::ProgramLauncher>(*keeper, std::move(command), runtime::Home{});
    function = std::move(made);
    Calls::Parts parts{"node", store,  *keeper,
                       clock,  random, [this](std::string_view) { return function; }};
    calls.emplace(std::move(parts), threads);
    calls->start();
  }

  SystemSteadyClock clock;
  SystemRandom random;
  std::unique_ptr<runtime::Keeper> keeper;
  Threads threads;
  FunctionPtr function;
  std::optional<Calls> calls;
};

// What the model knows of a call that nobody waits for.
struct Told {
  std::string session;
  std::string deed;
  unsigned bad = 0;               // attempts that fail
  std::uint64_t number = 0;       // it was answered with; 0: it is delayed
  bool is_cancelled = false;      // somebody was answered so, or that it was told to end
  bool may_be_cancelled = false;  // nobody knows: the answer was lost
  bool was_replayed = false;
};

struct Listed {
  std::string name;
  std::uint64_t number = 0;
};

class AsyncModelTest : public ::testing::TestWithParam<OnPoison> {
 protected:
  static constexpr std::uint64_t kSessions = 3;
  static constexpr unsigned kAttempts = 3;

  AsyncModelTest() {
    program_ = (directory_.path() / "instance").string();
    std::ofstream(program_) << kInstance;
    std::filesystem::permissions(program_, std::filesystem::perms::owner_all);
    spec_.id = "list";
    spec_.rules.default_ttl.reset();
    spec_.session_timeout.reset();
    spec_.retry.max_attempts = kAttempts;
    spec_.retry.initial = Millis(2);
    spec_.retry.factor = 1;
    spec_.retry.max = Millis(4);
    spec_.on_poison = GetParam();
    start();
  }
  ~AsyncModelTest() override { stop(); }

  std::string healed() const { return (directory_.path() / "healed").string(); }
  void start() { server_ = std::make_unique<Running>(store_, program_, healed(), spec_); }
  void stop() {
    if (!server_) return;
    finish(server_->calls->stop());
    server_->threads.stop();
    server_->calls.reset();
    server_.reset();
  }
  Calls& calls() { return *server_->calls; }

  template <typename T>
  T finish(Task<T> task) {
    auto result = asio::co_spawn(context_, std::move(task), asio::use_future);
    context_.restart();
    context_.run();
    return result.get();
  }

  CallPtr newCall(const std::string& session, const std::string& deed, unsigned bad) {
    CallPtr call(new Call);
    call->function = server_->function;
    call->request_id = fmt::format("r{:05}", ++requests_);
    call->session_key = session;
    call->timeout = Millis(20'000);
    call->payload = fmt::format(R"(["{}",{},"{}"])", deed, bad, call->request_id);
    return call;
  }

  // ---- a schedule

  void runSchedule(std::uint64_t seed) {
    SeededRandom random(seed);
    const auto key = [&] { return fmt::format("s{}-{}", seed, random.below(kSessions)); };
    for (int step = 0; step < 90; ++step) {
      store_.refuse_one_in = step / 15 % 3 == 2 ? 12 : 0;
      const std::uint64_t choice = random.below(100);
      if (choice < 45) {
        accept(key(), random);
      } else if (choice < 65) {
        submit(key());
      } else if (choice < 76) {
        if (const std::string one = someCall(random); !one.empty()) cancel(one);
      } else if (choice < 84) {
        if (const std::string one = someCall(random); !one.empty()) replay(one);
      } else if (choice < 90) {
        hold(key(), QueuedCalls::Hold::Paused);
      } else if (choice < 96) {
        hold(key(), QueuedCalls::Hold::None);
      } else if (choice < 98) {
        stop();
        start();
        note("restart");
      } else {
        std::this_thread::sleep_for(Millis(5));
      }
    }
    store_.refuse_one_in = 0;
    for (std::uint64_t one = 0; one < kSessions; ++one) {
      hold(fmt::format("s{}-{}", seed, one), QueuedCalls::Hold::None);
    }
    if (GetParam() == OnPoison::Park) waitForAll();
    judgeAll();
    // Whatever could not be done can be now.
    std::ofstream(healed()) << "";
    redriveAll();
    judgeAll();
    std::filesystem::remove(healed());
    for (const auto& [id, told] : told_) {
      const auto record = recordOf(id);
      EXPECT_TRUE(record.status == Status::Succeeded || record.status == Status::Cancelled) << id;
    }
    for (std::size_t i = 0; HasFailure() && i < notes_.size(); ++i) {
      std::printf("  %s\n", notes_[i].c_str());
    }
    told_.clear();
    waiting_.clear();
    notes_.clear();
  }

  // What was done, for whoever reads of a failure.
  template <typename... Parts>
  void note(fmt::format_string<Parts...> text, Parts&&... parts) {
    notes_.push_back(fmt::format(text, std::forward<Parts>(parts)...));
  }

  void accept(const std::string& session, SeededRandom& random) {
    static const std::vector<std::pair<std::string, unsigned>> kDeeds = {
        {"write", 0}, {"write", 0}, {"slow", 0},   {"slow", 0},  {"raise", 1},
        {"raise", 2}, {"raise", 9}, {"status", 9}, {"crash", 1}, {"crash", 9}};
    const auto& [deed, bad] = kDeeds[random.below(kDeeds.size())];
    const Millis delay(random.below(6) == 0 ? 1 + random.below(60) : 0);
    const CallPtr call = newCall(session, deed, bad);
    call->priority = static_cast<int>(random.below(10));
    const std::string id = call->request_id;
    const auto number = finish(calls().accept(call, delay));
    if (!number) {
      EXPECT_EQ(number.error().code(), Code::InsufficientStorage) << number.error().message();
      refused_.insert(id);
      return;
    }
    EXPECT_EQ(*number == 0, delay > Millis::zero());
    told_[id] = {session, deed, bad, *number, false, false, false};
    note("{} {} {} {} in {} ms: number {}", id, session, deed, bad, delay.count(), *number);
  }

  void submit(const std::string& session) {
    const CallPtr call = newCall(session, "write", 0);
    ASSERT_TRUE(calls().submit(call));
    note("{} {} waits", call->request_id, session);
    waiting_.push_back(call);
  }

  std::string someCall(SeededRandom& random) const {
    if (told_.empty()) return {};
    auto place = told_.begin();
    std::advance(place, static_cast<std::ptrdiff_t>(random.below(told_.size())));
    return place->first;
  }

  void cancel(const std::string& id) {
    const auto done = finish(calls().cancel(id));
    Told& told = told_[id];
    note("cancel {}: {}", id, done ? statusName(done->record.status) : done.error().message());
    if (done) {
      EXPECT_TRUE(done->record.status == Status::Cancelled ||
                  done->record.status == Status::Running);
      told.is_cancelled = told.is_cancelled || done->record.status == Status::Cancelled;
      told.may_be_cancelled = true;
    } else if (done.error().code() != Code::Conflict) {
      told.may_be_cancelled = true;
    }
  }

  void replay(const std::string& id) {
    const auto done = finish(calls().replay(id));
    note("replay {}: {}", id, done ? statusName(done->record.status) : done.error().message());
    if (!done) return;
    EXPECT_EQ(done->record.status, Status::Queued);
    EXPECT_EQ(done->record.attempts, 0U);
    told_[id].was_replayed = true;
    EXPECT_FALSE(told_[id].is_cancelled) << id << " was cancelled and is replayed";
  }

  // Once what ran when it was paused has ended, nothing begins.
  void notePaused(const std::string& session) {
    for (int i = 0; i < 10'000; ++i) {
      const auto view = finish(calls().show("list", session));
      if (!view || !view->running) break;
      std::this_thread::sleep_for(Millis(1));
    }
    paused_.emplace(session, listIn(session).size());
  }

  void hold(const std::string& session, QueuedCalls::Hold hold) {
    if (const auto paused = paused_.find(session); paused != paused_.end()) {
      EXPECT_EQ(listIn(session).size(), paused->second) << session << " ran while it was paused";
      if (hold == QueuedCalls::Hold::None) paused_.erase(paused);
    }
    for (int i = 0; i < 200; ++i) {
      const Result<> held = finish(calls().hold("list", session, hold));
      note("{} {}: {}", hold == QueuedCalls::Hold::None ? "resume" : "pause", session,
           held ? "done" : held.error().message());
      if (held && hold == QueuedCalls::Hold::Paused) notePaused(session);
      if (held || held.error().code() == Code::NotFound || hold != QueuedCalls::Hold::None) return;
      std::this_thread::sleep_for(Millis(5));  // there was no room for it
    }
    FAIL() << session << " cannot be resumed";
  }

  // ---- its end

  InvocationRecord recordOf(const std::string& id) {
    const auto found = finish(calls().invocation(id));
    EXPECT_TRUE(found) << id;
    return found ? found->record : InvocationRecord();
  }

  void waitFor(const std::string& id) {
    for (int i = 0; i < 60; ++i) {
      const auto found = finish(calls().awaitInvocation(id, Millis(1'000)));
      ASSERT_TRUE(found) << id << ": " << found.error().message();
      if (found->record.isOver()) return;
    }
    FAIL() << id << " does not end";
  }

  void waitForAll() {
    for (const auto& [id, told] : told_) waitFor(id);
  }

  // Runs again what was given up, the first of each line first, until all has ended well.
  void redriveAll() {
    for (int round = 0; round < 4'000; ++round) {
      bool is_done = true;
      for (const auto& [id, told] : told_) {
        const InvocationRecord record = recordOf(id);
        if (record.status == Status::Succeeded || record.status == Status::Cancelled) continue;
        is_done = false;
        if (record.status == Status::Parked || record.status == Status::Failed) replay(id);
      }
      if (is_done) return;
      std::this_thread::sleep_for(Millis(2));
    }
    FAIL() << "calls that are replayed do not end";
  }

  // What may be known of a call that nobody changes any more.
  void judge(const std::string& id, const Told& told, const InvocationRecord& record) {
    const bool is_healed = std::filesystem::exists(healed());
    SCOPED_TRACE(fmt::format("{} {} {} {}: {} after {}", id, told.session, told.deed, told.bad,
                             statusName(record.status), record.attempts));
    if (told.is_cancelled) EXPECT_EQ(record.status, Status::Cancelled);
    if (record.status == Status::Cancelled) {
      EXPECT_TRUE(told.may_be_cancelled);
    } else if (!is_healed && record.isOver()) {
      const bool fails = told.deed == "status" && told.bad > 0;
      const bool is_given_up = !fails && told.bad >= kAttempts;
      EXPECT_EQ(record.status, fails         ? Status::Failed
                               : is_given_up ? Status::Parked
                                             : Status::Succeeded);
      EXPECT_EQ(record.attempts, fails ? 1 : is_given_up ? kAttempts : told.bad + 1);
      EXPECT_EQ(record.status_code, fails ? 422 : is_given_up ? 0 : 200);
    }
    if (told.number != 0 && !told.was_replayed) EXPECT_EQ(record.seq, told.number);
    if (record.due_at && record.started_at) EXPECT_GE(*record.started_at, *record.due_at);
  }

  std::vector<Listed> listIn(const std::string& session) {
    std::vector<Listed> all;
    const auto stored =
        finish(store::getRecord(store_, sessionPartition("list", session), state::kSpace, "calls"));
    EXPECT_TRUE(stored);
    if (!stored || !*stored) return all;
    const auto parsed = parseJson((*stored)->value);
    EXPECT_TRUE(parsed);
    for (const JsonValue& one : parsed->elements()) {
      const auto parts = one.elements();
      all.push_back({std::string(parts[0].string().value_or("")),
                     static_cast<std::uint64_t>(parts[1].integer().value_or(0))});
    }
    return all;
  }

  void judgeAll() {
    std::map<std::string, std::map<std::string, std::uint64_t>> expected;  // by session, by name
    std::set<std::string> sessions;
    for (const auto& [id, told] : told_) sessions.insert(told.session);
    // Those that wait for the line end with it, or are in it still, where it is held.
    for (const CallPtr& call : waiting_) {
      sessions.insert(*call->session_key);
      const bool has_ended = call->settled.isSet();
      if (GetParam() == OnPoison::Park || std::filesystem::exists(healed())) {
        waitUntilSettled(call);
      } else if (!has_ended) {
        continue;
      }
      if (!call->outcome.error) {
        expected[*call->session_key][call->request_id] = call->outcome.seq;
      } else {
        const Code code = call->outcome.error->code();
        EXPECT_TRUE(code == Code::InsufficientStorage || code == Code::Unavailable ||
                    code == Code::FunctionCrashed)  // the last two: the server stopped
            << call->outcome.error->message();
      }
    }
    for (const auto& [id, told] : told_) {
      const InvocationRecord record = recordOf(id);
      judge(id, told, record);
      if (record.status == Status::Succeeded) expected[told.session][id] = record.seq;
    }
    const bool is_still = GetParam() == OnPoison::Park || std::filesystem::exists(healed());
    for (const std::string& session : sessions) judgeSession(session, expected[session], is_still);
  }

  // One after the other, in the order of their numbers, each once, and nothing else.
  void judgeSession(const std::string& session,
                    const std::map<std::string, std::uint64_t>& expected, bool is_still) {
    SCOPED_TRACE(session);
    const std::vector<Listed> list = listIn(session);
    std::map<std::string, std::uint64_t> found;
    std::uint64_t last = 0;
    for (const Listed& one : list) {
      EXPECT_GT(one.number, last) << one.name << " is out of order";
      last = one.number;
      EXPECT_TRUE(found.emplace(one.name, one.number).second) << one.name << " is there twice";
      EXPECT_FALSE(refused_.contains(one.name)) << one.name << " was refused";
    }
    for (const auto& [name, number] : expected) {
      ASSERT_TRUE(found.contains(name)) << name << " is not there";
      EXPECT_EQ(found[name], number) << name;
    }
    if (!is_still) return;  // the line may have gone on since
    EXPECT_EQ(found.size(), expected.size());
    for (const CallPtr& call : waiting_) {
      if (*call->session_key != session || call->outcome.error) continue;
      const auto seen = parseJson(call->outcome.body);
      ASSERT_TRUE(seen);
      const std::size_t before = seen->elements().size();
      ASSERT_LT(before, list.size());
      EXPECT_EQ(list[before].name, call->request_id) << "it saw what was before it, and no more";
    }
  }

  static Task<> wait(CallPtr call, std::shared_ptr<std::atomic<bool>> done) {
    co_await call->settled.wait();
    *done = true;
  }

  void waitUntilSettled(const CallPtr& call) {
    for (int i = 0; i < 30'000 && !call->settled.isSet(); ++i) {
      std::this_thread::sleep_for(Millis(1));
    }
    ASSERT_TRUE(call->settled.isSet()) << call->request_id << " is never answered";
  }

  TemporaryDirectory directory_;
  SystemClock time_;
  store::memory::MemoryStore memory_{time_};
  CrampedStore store_{memory_};
  asio::io_context context_;
  std::string program_;
  FunctionSpec spec_;
  std::unique_ptr<Running> server_;
  int requests_ = 0;
  std::map<std::string, Told> told_;
  std::vector<CallPtr> waiting_;
  std::set<std::string> refused_;
  std::map<std::string, std::size_t> paused_;  // and how many had run by then
  std::vector<std::string> notes_;
};

std::optional<std::uint64_t> fromEnvironment(const char* name) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::optional(std::strtoull(text, nullptr, 10)) : std::nullopt;
}

TEST_P(AsyncModelTest, CallsEndAsTheModelSays) {
  SystemRandom random;
  const std::uint64_t first =
      fromEnvironment("NIMBUS_SEED").value_or(random.next() % 1'000'000'000);
  const std::uint64_t many =
      std::min<std::uint64_t>(fromEnvironment("NIMBUS_SCHEDULES").value_or(4), 200);
  std::printf("NIMBUS_SEED=%llu\n", static_cast<unsigned long long>(first));
  for (std::uint64_t seed = first; seed < first + many && !HasFailure(); ++seed) {
    SCOPED_TRACE(fmt::format("NIMBUS_SEED={} NIMBUS_SCHEDULES=1", seed));
    runSchedule(seed);
  }
  EXPECT_GT(store_.refused.load(), 0U);
}

INSTANTIATE_TEST_SUITE_P(OnPoison, AsyncModelTest,
                         ::testing::Values(OnPoison::Park, OnPoison::Pause), [](const auto& param) {
                           return param.param == OnPoison::Park ? "Park" : "Pause";
                         });

}  // namespace
}  // namespace nimbus::session
