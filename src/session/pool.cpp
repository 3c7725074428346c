#include "session/pool.h"

#include "base/json.h"
#include "base/log.h"
#include "session/operation_counts.h"
#include "session/outbox.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace nimbus::session {
namespace {

using runtime::Frame;
using runtime::FrameType;
using runtime::Instance;

// How long a call may wait for a slot before another instance is started for it.
constexpr Millis kPatience{20};
// How often a pool with something to do looks at its clock.
constexpr Millis kTick{10};
// How often memory and idle instances are looked at.
constexpr Millis kLook{250};
constexpr Millis kIdle{60'000};
constexpr Millis kLoadPatience{30'000};
// How long other calls of an instance may take to finish after one of its calls hung, and a call
// that was cancelled.
constexpr Millis kGrace{5'000};
// What a step of priority is worth, in time waited.
constexpr Millis kStep{1'000};

std::optional<Timestamp> expiryOf(std::int64_t millis) {
  if (millis == 0) return std::nullopt;
  return Timestamp(Millis(millis));
}

// [[key, version, expiry]...] of a Result; false if it is anything else.
template <typename Take>
bool forEachEntry(const JsonValue& head, std::string_view name, std::size_t members, Take&& take) {
  const auto list = head.member(name);
  if (!list) return true;
  if (!list->isArray()) return false;
  for (const JsonValue& one : list->elements()) {
    const std::vector<JsonValue> parts = one.elements();
    if (parts.size() != members || !parts[0].string()) return false;
    for (std::size_t i = 1; i < members; ++i) {
      if (!parts[i].integer() || *parts[i].integer() < 0) return false;
    }
    if (!take(std::string(*parts[0].string()), parts)) return false;
  }
  return true;
}

// [[function, session or null, delay]...]; `value`: where its payloads begin among the frame's.
bool readSent(const JsonValue& head, const Frame& frame, std::size_t value,
              std::vector<SentCall>& sent) {
  const auto list = head.member("sends");
  if (!list) return true;
  if (!list->isArray()) return false;
  for (const JsonValue& one : list->elements()) {
    const std::vector<JsonValue> parts = one.elements();
    if (parts.size() != 3 || !parts[0].string() || !parts[2].integer()) return false;
    if (value >= frame.values.size() || sent.size() == kMostSent) return false;
    SentCall call;
    call.function_id = std::string(*parts[0].string());
    if (const auto key = parts[1].string()) call.session_key = std::string(*key);
    call.delay = Millis(*parts[2].integer());
    call.payload = std::string(frame.values[value++]);
    sent.push_back(std::move(call));
  }
  return true;
}

// Whether the payloads of what was sent are JSON: the last thing, as it ends what the head is.
bool checkSentPayloads(const std::vector<SentCall>& sent) {
  return std::all_of(sent.begin(), sent.end(),
                     [](const SentCall& one) { return checkJson(one.payload).has_value(); });
}

bool readChanges(const JsonValue& head, const Frame& frame, state::Changes& changes) {
  std::size_t value = 1;  // the first is the body
  return forEachEntry(
             head, "writes", 3,
             [&](std::string key, const std::vector<JsonValue>& parts) {
               if (value >= frame.values.size()) return false;
               changes.writes.push_back({std::move(key), std::string(frame.values[value++]),
                                         static_cast<state::Version>(*parts[1].integer()),
                                         expiryOf(*parts[2].integer())});
               return true;
             }) &&
         forEachEntry(head, "touches", 3,
                      [&](std::string key, const std::vector<JsonValue>& parts) {
                        changes.touches.push_back({std::move(key),
                                                   static_cast<state::Version>(*parts[1].integer()),
                                                   expiryOf(*parts[2].integer())});
                        return true;
                      }) &&
         forEachEntry(head, "deletes", 2,
                      [&](std::string key, const std::vector<JsonValue>& parts) {
                        changes.removals.push_back(
                            {std::move(key), static_cast<state::Version>(*parts[1].integer())});
                        return true;
                      });
}

// The events stand behind the values of the writes.
bool readEvents(const JsonValue& head, const Frame& frame, Ending& ending) {
  const std::int64_t count = head.integer("events").value_or(0);
  const std::size_t begin = 1 + ending.changes.writes.size();
  if (count < 0 || begin + static_cast<std::size_t>(count) > frame.values.size()) return false;
  for (std::int64_t i = 0; i < count; ++i) {
    ending.events.emplace_back(frame.values[begin + static_cast<std::size_t>(i)]);
  }
  return true;
}

double millisOf(SteadyTime::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

bool takesTurns(const Call& call) {
  return call.is_driven || call.priority != kUsualPriority;
}

Ending wasCancelled() {
  Ending ending;
  ending.kind = Ending::Kind::Cancelled;
  ending.failure.message = "the call was cancelled";
  return ending;
}

// Of a log line; empty for a call without a session.
std::string_view sessionOf(const Call& call) {
  return call.session_key ? std::string_view(*call.session_key) : std::string_view();
}

// False: the instance did not keep to the protocol.
bool readResult(const Frame& frame, Ending& ending, FunctionMetrics& metrics) {
  const Result<JsonValue> head = parseJson(frame.head);
  if (!head || !head->isObject() || frame.values.empty()) return false;
  if (!readChanges(*head, frame, ending.changes)) return false;
  if (!readEvents(*head, frame, ending)) return false;
  const std::size_t sent = 1 + ending.changes.writes.size() + ending.events.size();
  if (!readSent(*head, frame, sent, ending.sent)) return false;
  if (const auto operations = head->member("operations")) {
    countOperations(*operations, metrics.operations);
  }
  if (const auto error = head->member("error")) {
    ending.kind = Ending::Kind::Raised;
    ending.failure.type = std::string(error->string("type").value_or("Error"));
    ending.failure.message = std::string(error->string("message").value_or(""));
    ending.failure.trace = std::string(error->string("trace").value_or(""));
    return checkSentPayloads(ending.sent);
  }
  ending.kind = Ending::Kind::Returned;
  const auto status = head->integer("status").value_or(200);
  if (status < 200 || status > 599) return false;
  ending.status = static_cast<int>(status);
  ending.body = std::string(frame.values[0]);
  return checkJson(ending.body).has_value() && checkSentPayloads(ending.sent);
}

}  // namespace

Pool::Pool(FunctionPtr function, const boost::asio::any_io_executor& executor, Parts parts)
    : function_(std::move(function)),
      executor_(executor),
      parts_(parts),
      load_head_(loadHead(*function_)),
      next_look_(parts.clock.now()),
      group_(executor, "pool of " + function_->id) {
  while (starting_ < function_->min_instances) start();
}

Pool::~Pool() = default;

// ---- Slots

// Ahead only where there can be no further instance: elsewhere a call that waits asks for one.
unsigned Pool::slotsForAnyone() const {
  return members_.size() >= function_->max_instances ? slots() : function_->concurrency;
}

Pool::MemberPtr Pool::bestFree(bool takes_turns) const {
  const unsigned slots = takes_turns ? function_->concurrency : slotsForAnyone();
  const auto runsAtOnce = [this](const MemberPtr& member) {
    return member->taken < function_->concurrency;
  };
  MemberPtr best;
  for (const MemberPtr& member : members_) {
    if (!member->isUsable() || member->taken >= slots) continue;
    const bool better = !best || (runsAtOnce(member) && !runsAtOnce(best)) ||
                        (runsAtOnce(member) == runsAtOnce(best) && member->bound < best->bound);
    if (better) best = member;
  }
  return best;
}

Pool::MemberPtr Pool::tryTake(const MemberPtr& bound, const Call& call) {
  MemberPtr member;
  if (takesTurns(call)) return member;
  if (isOurs(bound)) {
    if (bound->taken < slots() && bound->waiting.empty()) member = bound;
  } else if (waiting_.empty()) {
    member = bestFree(false);
  }
  if (member) ++member->taken;
  return member;
}

void Pool::enqueue(std::deque<Waiting>& line, Waiting one) {
  auto place = line.end();
  while (place != line.begin() && std::prev(place)->rank > one.rank) --place;
  line.insert(place, std::move(one));
}

dispatch::Signal<Result<Pool::MemberPtr>> Pool::take(const MemberPtr& bound, const Call& call) {
  dispatch::Signal<Result<MemberPtr>> signal;
  if (stopping_) {
    signal.set(Error(Code::Unavailable, "the server is stopping"));
    return signal;
  }
  const SteadyTime now = parts_.clock.now();
  Waiting one{signal, now, now - (call.priority - kUsualPriority) * kStep, takesTurns(call)};
  if (isOurs(bound)) {
    enqueue(bound->waiting, std::move(one));
    serveBound(bound);
  } else {
    enqueue(waiting_, std::move(one));
    if (members_.empty() && starting_ == 0) start();
    serveWaiting();
  }
  parts_.host.needsTicks();
  return signal;
}

void Pool::release(const MemberPtr& member) {
  --member->taken;
  if (!member->waiting.empty()) serveBound(member);
  if (member->taken == 0) {
    member->idle_since = parts_.clock.now();
    if (member->retiring) kill(member, member->retired_for, "replaced");
  }
  serveWaiting();
}

void Pool::serveBound(const MemberPtr& member) {
  while (!member->waiting.empty() && member->isUsable()) {
    const bool takes_turns = member->waiting.front().takes_turns;
    if (member->taken >= (takes_turns ? function_->concurrency : slots())) return;
    ++member->taken;
    const auto signal = std::move(member->waiting.front().signal);
    member->waiting.pop_front();
    signal.set(member);
  }
}

void Pool::serveWaiting() {
  while (!waiting_.empty()) {
    const MemberPtr member = bestFree(waiting_.front().takes_turns);
    if (!member) return;
    ++member->taken;
    const auto signal = std::move(waiting_.front().signal);
    waiting_.pop_front();
    signal.set(member);
  }
}

// ---- Instances

// `reason`: the one of a few words by which operators count; `why` is what is told.
void Pool::kill(const MemberPtr& member, std::string_view reason, std::string why) {
  if (member->instance->hasEnded()) return;
  member->ended_by = reason;
  member->instance->kill(std::move(why));
}

void Pool::start() {
  ++starting_;
  group_.add(startMember());
}

Task<> Pool::startMember() {
  using Started = NodeMetrics::Started;
  NodeMetrics& figures = *function_->metrics->node;
  const SteadyTime begun = parts_.clock.now();
  Result<runtime::Ends> ends = co_await function_->launcher->launch();
  Result<> loaded = Error(Code::Unavailable, "the server is stopping");
  MemberPtr member;
  if (!ends) {
    loaded = ends.error();
  } else if (!stopping_) {
    member = std::make_shared<Member>();
    member->pool = this;
    member->retiring = true;  // until it is loaded
    member->ended_by = "not_loaded";
    member->instance = std::make_shared<Instance>(parts_.host.nextInstanceId(), executor_,
                                                  *std::move(ends), parts_.keeper, *this);
    members_.push_back(member);
    parts_.host.onInstances(1);
    function_->metrics->instances.add();
    group_.add(member->instance->run());
    group_.add(member->instance->listenToOutput());
    loaded = co_await member->instance->load(load_head_, kLoadPatience);
  }
  --starting_;
  const SteadyTime now = parts_.clock.now();
  if (loaded) {
    member->retiring = false;
    member->ended_by = "crashed";
    member->idle_since = now;
    figures.instanceStarted(function_->runtime, Started::Yes, now - begun);
    log::info("instance started", {{"function", function_->id},
                                   {"version", function_->version},
                                   {"instance", member->instance->id()},
                                   {"took_ms", millisOf(now - begun)}});
    serveWaiting();
    co_return;
  }
  figures.instanceStarted(function_->runtime, Started::No, now - begun);
  log::warn("an instance could not be started", {{"function", function_->id},
                                                 {"version", function_->version},
                                                 {"error", loaded.error().message()}});
  const bool hopeless = std::none_of(members_.begin(), members_.end(),
                                     [](const MemberPtr& one) { return one->isUsable(); });
  if (!hopeless || starting_ != 0) co_return;
  const Error why(Code::FunctionCrashed,
                  "no instance could be started: " + loaded.error().message());
  for (const Waiting& one : std::exchange(waiting_, {})) one.signal.set(why);
}

const Pool::MemberPtr& Pool::memberOf(const Instance& instance) const {
  static const MemberPtr kNone;
  for (const MemberPtr& member : members_) {
    if (member->instance.get() == &instance) return member;
  }
  return kNone;
}

void Pool::retire(const MemberPtr& member, std::string_view reason, const std::string& why) {
  member->retiring = true;
  member->retired_for = reason;
  if (member->taken == 0) kill(member, reason, why);
  for (Waiting& one : std::exchange(member->waiting, {})) enqueue(waiting_, std::move(one));
}

void Pool::onEnd(Instance& instance, const std::string& why) {
  const MemberPtr member = memberOf(instance);
  if (!member) return;
  std::erase(members_, member);
  parts_.host.onInstances(-1);
  function_->metrics->instances.add(-1);
  function_->metrics->node->instanceEnded(member->ended_by);
  log::info("instance ended", {{"function", function_->id},
                               {"instance", instance.id()},
                               {"reason", member->ended_by},
                               {"why", why}});
  for (Running* const running : std::exchange(member->running, {})) {
    if (running->over) {  // its caller has been told
      running->over->set(true);
    } else if (running->begun) {
      log::warn("an instance ended with a call in it", {{"function", function_->id},
                                                        {"session", sessionOf(*running->call)},
                                                        {"request_id", running->call->request_id},
                                                        {"instance", instance.id()},
                                                        {"why", why}});
      running->ending.kind = Ending::Kind::Crashed;
      running->ending.failure.message = "the instance that ran the call ended: " + why;
      if (running->cancelled_at) running->ending = wasCancelled();
      running->ended.set(Running::Fate::Ended);
    } else {
      running->ended.set(Running::Fate::NeverBegan);
    }
  }
  for (Waiting& one : std::exchange(member->waiting, {})) enqueue(waiting_, std::move(one));
  if (stopping_) return refuseWaiting();
  const bool missing = members_.size() + starting_ < function_->min_instances ||
                       (members_.empty() && !waiting_.empty());
  if (missing && starting_ == 0) start();
}

// ---- Calls

void Pool::begin(Running& running) {
  running.member->running.push_back(&running);
  noteBegun(*running.member);
  running.member->instance->flushSoon();
  parts_.host.needsTicks();
}

void Pool::noteBegun(Member& member) const {
  const std::size_t at_once = std::min<std::size_t>(member.running.size(), function_->concurrency);
  for (std::size_t i = at_once; i > 0 && !member.running[i - 1]->begun; --i) {
    member.running[i - 1]->begun = parts_.clock.now();
  }
}

void Pool::onFrame(Instance& instance, const Frame& frame) {
  const MemberPtr& member = memberOf(instance);
  if (!member) return;
  const auto place =
      std::find_if(member->running.begin(), member->running.end(),
                   [&](const Running* running) { return running->request == frame.request; });
  Running* const running = place != member->running.end() ? *place : nullptr;
  if (frame.type == FrameType::Log) {
    const Result<JsonValue> head = parseJson(frame.head);
    if (!head || frame.values.empty()) return;
    const std::string stream(head->string("stream").value_or("stdout"));
    parts_.host.onLog(running != nullptr ? running->call->request_id : std::string(), stream,
                      frame.values[0]);
    return;
  }
  if (running == nullptr) return;  // of a call that nobody waits for any more
  if (frame.type == FrameType::State) {
    if (!running->over) parts_.host.onState(*running, frame);
    return;
  }
  Ending ignored;
  if (!readResult(frame, running->over ? ignored : running->ending, *function_->metrics)) {
    if (!running->over) running->ending = {};
    kill(member, "protocol", "its Result does not keep to the protocol");
    return;
  }
  if (running->cancelled_at) running->ending = wasCancelled();
  member->running.erase(place);
  noteBegun(*member);
  if (!running->begun) running->begun = parts_.clock.now();  // out of turn, which harms only itself
  if (running->over) {
    running->over->set(true);
  } else {
    running->ended.set(Running::Fate::Ended);
  }
}

void Pool::onOutput(Instance& instance, runtime::Stream stream, std::string_view lines) {
  const MemberPtr& member = memberOf(instance);
  // With one call running there is no doubt whose it is.
  const std::string request_id = member && member->running.size() == 1
                                     ? member->running.front()->call->request_id
                                     : std::string();
  parts_.host.onLog(request_id, stream == runtime::Stream::Out ? "stdout" : "stderr", lines);
}

// ---- Time

// The caller is told; what runs may go on for a while.
void Pool::timeOut(const MemberPtr& member, Running& running) {
  log::info("a call ran out of time", {{"function", function_->id},
                                       {"session", sessionOf(*running.call)},
                                       {"request_id", running.call->request_id},
                                       {"instance", member->instance->id()},
                                       {"timeout_ms", running.call->timeout.count()}});
  running.over.emplace();
  running.ending.kind = Ending::Kind::TimedOut;
  running.ending.failure.message =
      fmt::format("the function did not end within {} ms", running.call->timeout.count());
  running.ended.set(Running::Fate::Ended);
  runtime::FrameWriter writer(member->instance->outgoing(), FrameType::Cancel, running.request, 1);
  writer.segment(R"({"reason":"timeout"})");
  writer.finish();
  member->instance->flushSoon();
  retire(member, "timeout", "a call hung");
}

void Pool::cancel(const Call& call) {
  for (const MemberPtr& member : members_) {
    for (Running* const running : member->running) {
      if (running->call.get() != &call || running->over || running->cancelled_at) continue;
      running->cancelled_at = parts_.clock.now();
      runtime::FrameWriter writer(member->instance->outgoing(), FrameType::Cancel, running->request,
                                  1);
      writer.segment(R"({"reason":"cancelled"})");
      writer.finish();
      member->instance->flushSoon();
      parts_.host.needsTicks();
    }
  }
}

void Pool::endCancelled(const MemberPtr& member, Running& running) {
  log::info("a call that was cancelled did not end", {{"function", function_->id},
                                                      {"session", sessionOf(*running.call)},
                                                      {"request_id", running.call->request_id},
                                                      {"instance", member->instance->id()}});
  running.over.emplace();
  running.ending = wasCancelled();
  running.ended.set(Running::Fate::Ended);
  retire(member, "cancelled", "a call that was cancelled did not end");
}

SteadyTime Pool::tick(SteadyTime now) {
  bool runs = false;
  for (const MemberPtr& member : std::vector<MemberPtr>(members_)) {
    for (Running* const running : std::vector<Running*>(member->running)) {
      runs = true;
      const bool is_late = running->begun && now - *running->begun >= running->call->timeout;
      if (is_late && !running->over) timeOut(member, *running);
      const bool is_unwanted = running->cancelled_at && now - *running->cancelled_at >= kGrace;
      if (is_unwanted && !running->over) endCancelled(member, *running);
    }
    const auto begun = [](const Running* running) { return running->begun && !running->over; };
    const auto hangs = [](const Running* running) { return running->over.has_value(); };
    if (std::none_of(member->running.begin(), member->running.end(), hangs)) continue;
    // One that runs nothing else has nothing to lose.
    const bool alone = std::none_of(member->running.begin(), member->running.end(), begun);
    member->kill_at = std::min(member->kill_at, alone ? now : now + kGrace);
  }
  for (const MemberPtr& member : std::vector<MemberPtr>(members_)) {
    if (member->kill_at <= now) kill(member, "timeout", "a call hung");
  }
  if (!waiting_.empty() && now - waiting_.front().since >= kPatience && starting_ == 0 &&
      members_.size() < function_->max_instances && !stopping_) {
    start();
  }
  if (now >= next_look_) {
    next_look_ = now + kLook;
    checkMemory();
    for (const MemberPtr& member : std::vector<MemberPtr>(members_)) {
      const bool idle =
          member->isUsable() && member->taken == 0 && now - member->idle_since > kIdle;
      if (idle && members_.size() > function_->min_instances) retire(member, "idle", "idle");
    }
  }
  if (runs || !waiting_.empty()) return now + kTick;
  const bool waits = std::any_of(members_.begin(), members_.end(), [](const MemberPtr& member) {
    return !member->waiting.empty() || member->retiring;
  });
  if (waits) return now + kTick;
  return members_.empty() ? SteadyTime::max() : next_look_;
}

void Pool::checkMemory() {
  if (function_->memory_mb == 0) return;
  const std::size_t limit = std::size_t{function_->memory_mb} * 1024 * 1024;
  for (const MemberPtr& member : std::vector<MemberPtr>(members_)) {
    if (member->running.empty()) continue;
    member->instance->checkMemory();
    if (member->instance->residentBytes() <= limit) continue;
    kill(member, "memory",
         fmt::format("it used more than its {} MB of memory", function_->memory_mb));
  }
}

bool Pool::isIdle() const {
  return waiting_.empty() && starting_ == 0 &&
         std::all_of(members_.begin(), members_.end(),
                     [](const MemberPtr& member) { return member->taken == 0; });
}

void Pool::refuseWaiting() {
  for (const Waiting& one : std::exchange(waiting_, {})) {
    one.signal.set(Error(Code::Unavailable, "the server is stopping"));
  }
}

Task<> Pool::stop() {
  stopping_ = true;
  refuseWaiting();
  for (const MemberPtr& member : std::vector<MemberPtr>(members_)) {
    kill(member, "stopped", "the server is stopping");
  }
  co_await group_.join();
}

}  // namespace nimbus::session
