#include "session/function_host.h"

#include "base/json.h"
#include "base/log.h"
#include "cluster/moved.h"
#include "session/invoke_frame.h"
#include "session/outbox.h"
#include "state/stored.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using dispatch::Async;
using dispatch::Signal;
using dispatch::TaskOutcome;

constexpr Millis kEvictionPeriod{1'000};
// Sessions that leave the memory at once: each may be a commit, and calls wait meanwhile.
constexpr int kEvictedAtOnce = 256;
// How often it is asked whose the sessions should be.
constexpr Millis kBalancePeriod{5'000};
// How long a session was not used that may change its owner.
constexpr Millis kAtRest{1'000};
// How soon something new is looked at.
constexpr Millis kSoon{10};
// How often a claim that was refused is tried again at once.
constexpr int kClaimRetries = 10;
// How often an operation is tried whose session changes its owner.
constexpr int kOwnersAsked = 500;
// At most this many numbers are set aside at once for calls that write nothing.
constexpr std::uint64_t kMaxReserved = 1024;
// How long it is remembered that a session was deleted: until its waiting calls have seen it.
constexpr Millis kRememberRemoval{600'000};

std::chrono::microseconds microsSince(SteadyTime begun, SteadyTime now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now - begun);
}

// The session's record, as it is in memory, for the next commit.
store::op::Put putRecord(Activation& activation, store::Version version) {
  activation.recorded_at = activation.record.last_access;
  activation.must_be_recorded = false;
  store::op::Put put;
  put.space = kSessionSpace;
  put.key = kSessionRecord;
  put.value = activation.record.toJson();
  put.expected = std::exchange(activation.record_version, version);
  put.version = version;
  return put;
}

// Sets numbers aside, so that they can be given without writing that down: more each time, because
// a session that has had many calls will have more.
void reserveNumbers(Activation& activation) {
  activation.record.reserved = activation.last_number + activation.reserve_next;
  activation.reserve_next = std::min(2 * activation.reserve_next, kMaxReserved);
}

// Whether what is stored of the session would mislead whoever claims it after a crash: a number was
// given that is not set aside, or it would expire too early by more than a little.
bool mustBeRecorded(const Activation& activation) {
  const SessionRecord& record = activation.record;
  if (activation.last_number > record.reserved || activation.must_be_recorded) return true;
  return record.timeout && record.last_access - activation.recorded_at > *record.timeout / 64;
}

// Behind the end of one call stands the next of its session; no instance is started for it any
// more.
Error serverStops() {
  return {Code::Unavailable, "the server is stopping"};
}

Error wasDeleted() {
  return {Code::Conflict, "the session was deleted while the call waited"};
}

// Whether nobody misses it for the moment it takes to change its owner, and nothing of it waits.
bool isAtRest(const Activation& activation, SteadyTime now) {
  const Backlog* const backlog = activation.backlog.get();
  const bool has_work =
      backlog != nullptr && (backlog->isBusy() || backlog->scheduled > 0 || backlog->to_send > 0);
  return now - activation.last_use > kAtRest && !has_work && !activation.record.is_paused &&
         !activation.record.is_draining;
}

// Counts a call as running for as long as its coroutine lives.
class RunningCount {
 public:
  explicit RunningCount(FunctionMetrics& metrics) : metrics_(metrics) { metrics_.running.add(); }
  ~RunningCount() { metrics_.running.add(-1); }
  RunningCount(const RunningCount&) = delete;
  RunningCount& operator=(const RunningCount&) = delete;

 private:
  FunctionMetrics& metrics_;
};

// What a write has made of its session, which had that many bytes before.
KeptTotals grownBy(const Activation& activation, std::uint64_t before) {
  return {0, static_cast<std::int64_t>(activation.space.bytes() - before)};
}

std::optional<Code> codeOf(const Result<state::Answer>& answer) {
  return answer ? std::nullopt : std::optional(answer.error().code());
}

std::optional<state::Operation> readOperation(const JsonValue& head, const runtime::Frame& frame) {
  const auto kind = state::kindNamed(head.string("operation").value_or(""));
  if (!kind) return std::nullopt;
  state::Operation operation;
  operation.kind = *kind;
  operation.key = std::string(head.string("key").value_or(""));
  if (const auto keys = head.member("keys")) {
    for (const JsonValue& key : keys->elements()) {
      if (!key.string()) return std::nullopt;
      operation.keys.emplace_back(*key.string());
    }
  }
  for (const std::string_view value : frame.values) operation.values.emplace_back(value);
  if (const auto ttl = head.member("ttl")) operation.ttl = ttl->number();
  if (const auto delta = head.integer("delta")) operation.delta = *delta;
  if (const auto version = head.integer("version"); version && *version >= 0) {
    operation.version = static_cast<state::Version>(*version);
  }
  if (const auto pattern = head.string("pattern")) operation.pattern = std::string(*pattern);
  return operation;
}

}  // namespace

FunctionHost::FunctionHost(Node& node, std::string function_id,
                           const asio::any_io_executor& executor, std::shared_ptr<FunctionLog> log)
    : node_(node),
      id_(std::move(function_id)),
      executor_(executor),
      log_(std::move(log)),
      timer_(executor),
      next_eviction_(node.clock.now() + kEvictionPeriod),
      group_(executor, "function " + id_),
      queued_(node, id_, executor, *this) {}

FunctionHost::~FunctionHost() = default;

const Activation* FunctionHost::find(std::string_view session_key) const {
  const auto found = activations_.find(std::string(session_key));
  return found != activations_.end() ? found->second.get() : nullptr;
}

bool FunctionHost::surelyOwns(std::string_view session_key) const {
  const Activation* const activation = find(session_key);
  return activation != nullptr && !activation->isDoomed() && isSurelyOurs(*activation);
}

void FunctionHost::forget(std::unordered_map<std::string, ActivationPtr>::iterator place) {
  place->second->unbind();
  queued_.onForgotten(*place->second);
  by_use_.erase(by_use_.iterator_to(*place->second));
  node_.counts.activation_bytes.fetch_sub(place->second->counted_bytes, std::memory_order_relaxed);
  activations_.erase(place);
  node_.counts.activations.fetch_sub(1, std::memory_order_relaxed);
}

void FunctionHost::onInstances(int change) {
  node_.counts.instances.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
}

// ---- Calls

bool FunctionHost::wasRemoved(const Call& call) const {
  if (removed_.empty()) return false;
  const auto removed = removed_.find(*call.session_key);
  return removed != removed_.end() && call.accepted_at <= removed->second;
}

Route FunctionHost::routeOf(Activation& activation, const FunctionSpec& function,
                            const Pool::MemberPtr& member) {
  if (const auto first = std::exchange(activation.came_by, std::nullopt)) return *first;
  const bool stayed = activation.instance == member || !function.session_affinity;
  return stayed ? Route::Hit : Route::Moved;
}

Async<TaskOutcome> FunctionHost::run(CallPtr call) {
  FunctionMetrics& metrics = *call->function->metrics;
  const RunningCount counted(metrics);
  const SteadyTime its_turn = node_.clock.now();
  ActivationPtr activation;
  if (stopping_) {
    call->fail(serverStops());
    co_return TaskOutcome::ok();
  }
  if (call->session_key) {
    if (wasRemoved(*call)) {
      call->fail(wasDeleted());
      co_return TaskOutcome::ok();
    }
    // Once more if it is lost before its first call gets to run: who would wait in one that is lost
    // would be forgotten with it.
    for (int tries = 0; !(activation = findUsable(*call->session_key)); ++tries) {
      if (call->is_driven) co_return TaskOutcome::ok();  // its number may be another's by now
      const Signal<Result<ActivationPtr>> signal;
      whenActive(*call->session_key, call->function,
                 [signal](Result<ActivationPtr> result) { signal.set(std::move(result)); });
      Result<ActivationPtr> loaded = co_await signal;
      if (!loaded) {
        if (!cluster::movedIn(loaded.error())) {
          log::warn("a session could not be loaded", {{"function", id_},
                                                      {"session", *call->session_key},
                                                      {"request_id", call->request_id},
                                                      {"error", loaded.error().message()}});
        }
        call->fail(loaded.error());
        co_return TaskOutcome::ok();
      }
      if (stopping_) {
        call->fail(serverStops());
        co_return TaskOutcome::ok();
      }
      Activation& found = **loaded;
      const bool may_be_had = found.commits->isLostToAnother() && tries < kClaimRetries;
      if (found.isDoomed() && !may_be_had) {
        found.newest->settle(call);  // which tells why
        co_return TaskOutcome::ok();
      }
    }
    use(*activation);
    if (node_.members != nullptr) claimAnew(*activation);
    if (activation->record.isOver(node_.store.now())) beginAnew(*activation);
    if (activation->backlog && queued_.mustWait(call, *activation)) co_return TaskOutcome::ok();
    if (call->operation) {
      runOperation(call, activation);
      co_return TaskOutcome::ok();
    }
    if (call->outcome.seq == 0) call->outcome.seq = ++activation->last_number;
  }
  call->has_begun = true;

  const std::shared_ptr<Pool> pool = poolOf(call->function);
  while (true) {
    Pool::MemberPtr member = pool->tryTake(activation ? activation->instance : nullptr, *call);
    if (!member) {
      const Signal<Result<Pool::MemberPtr>> free =
          pool->take(activation ? activation->instance : nullptr, *call);
      Result<Pool::MemberPtr> taken = co_await free;
      if (!taken) {
        call->outcome.error = taken.error();
        settleRead(call, activation);
        co_return TaskOutcome::ok();
      }
      member = *std::move(taken);
    }
    if (call->is_cancelled) {
      pool->release(member);
      call->outcome.error = Error(Code::Conflict, "the call was cancelled");
      settleRead(call, activation);
      co_return TaskOutcome::ok();
    }
    if (activation) {
      const Route route = routeOf(*activation, *call->function, member);
      metrics.routes[static_cast<std::size_t>(route)].add();
      if (call->function->session_affinity) activation->bindTo(member);
    }

    Pool::Running running;
    running.call = call;
    running.member = member;
    running.space = activation ? &activation->space : nullptr;
    running.request = pool->nextRequest(*member);
    give(running, activation.get());
    pool->begin(running);
    const Pool::Running::Fate fate = co_await running.ended;
    if (fate == Pool::Running::Fate::Ended) {
      const SteadyTime ended = node_.clock.now();
      metrics.ran.add(ended - *running.begun);
      metrics.turn.add(microsSince(its_turn, ended));
      call->outcome.duration = microsSince(*running.begun, ended);
      if (!running.ending.events.empty()) co_await planEvents(running, activation);
      conclude(running, activation);
      if (running.over) co_await *running.over;
    }
    pool->release(member);
    if (fate == Pool::Running::Fate::Ended) co_return TaskOutcome::ok();
  }
}

// It had expired: its binding goes; its numbers go on, and its state has a time of its own.
void FunctionHost::beginAnew(Activation& activation) const {
  activation.record.created_at = node_.store.now();
  activation.unbind();
}

// The Invoke frame.
void FunctionHost::give(const Pool::Running& running, Activation* activation) const {
  const Timestamp now = node_.store.now();
  if (activation != nullptr) activation->space.prune(now);
  writeInvoke(running.member->instance->outgoing(), running.request, *running.call, running.space,
              now);
}

Result<> FunctionHost::checkSent(const std::vector<SentCall>& sent) const {
  for (const SentCall& one : sent) {
    NIMBUS_CHECK(session::checkSent(one));
    if (!node_.find(one.function_id)) {
      return Error(Code::NotFound, fmt::format("there is no function \"{}\"", one.function_id));
    }
  }
  return {};
}

void FunctionHost::conclude(Pool::Running& running, const ActivationPtr& activation) {
  Call& call = *running.call;
  Outcome& outcome = call.outcome;
  Ending& ending = running.ending;
  outcome.instance = running.member->instance->id();
  if (call.is_cancelled) {
    // Also if it had answered just before: whoever cancelled it was told that it is.
    ending.kind = Ending::Kind::Cancelled;
    ending.failure.message = "the call was cancelled";
  }
  switch (ending.kind) {
    case Ending::Kind::Returned:
      outcome.status_code = ending.status;
      outcome.body = std::move(ending.body);
      break;
    case Ending::Kind::Raised:
      // Not the message: it may hold what callers sent.
      log::debug("a function raised", {{"function", id_},
                                       {"session", call.session_key.value_or("")},
                                       {"request_id", call.request_id},
                                       {"type", ending.failure.type}});
      outcome.error = Error(Code::FunctionError, ending.failure.message);
      outcome.failure = std::move(ending.failure);
      break;
    case Ending::Kind::Crashed:
      outcome.error = Error(Code::FunctionCrashed, std::move(ending.failure.message));
      break;
    case Ending::Kind::TimedOut:
      outcome.error = Error(Code::Timeout, std::move(ending.failure.message));
      break;
    case Ending::Kind::Cancelled:
      outcome.error = Error(Code::Conflict, std::move(ending.failure.message));
      break;
  }
  const bool keeps =
      ending.kind == Ending::Kind::Returned ||
      (ending.kind == Ending::Kind::Raised && call.function->on_error == OnError::Keep);
  if (keeps && !ending.sent.empty()) {
    if (const Result<> can_be = checkSent(ending.sent); can_be) {
      call.sent = std::move(ending.sent);
    } else {
      outcome.error = Error(Code::FunctionError, can_be.error().message());
      outcome.failure = FunctionFailure{"SendError", can_be.error().message(), ""};
      return settleRead(running.call, activation);
    }
  }
  if (activation != nullptr && keeps && (!ending.changes.empty() || ending.append)) {
    const std::uint64_t bytes = activation->space.bytes();
    const Result<> accepted =
        activation->space.accept(ending.changes, call.function->rules, node_.store.now());
    if (accepted) {
      settleWrite(running.call, activation, std::move(ending.changes), std::move(ending.append));
      call.function->metrics->kept.change(activation->key, grownBy(*activation, bytes));
      return;
    }
    log::warn("what a call wrote breaks the rules of state",
              {{"function", id_},
               {"session", activation->key},
               {"request_id", call.request_id},
               {"error", accepted.error().message()}});
    call.sent.clear();
    // It wrote what it may not: its own error, whatever that would be for others.
    outcome.error = Error(Code::FunctionError, accepted.error().message());
    outcome.failure = FunctionFailure{"StateError", accepted.error().message(), ""};
  }
  settleRead(running.call, activation);
}

void FunctionHost::runOperation(const CallPtr& call, const ActivationPtr& its_session) {
  Activation& activation = *its_session;
  call->has_begun = true;
  if (state::isWrite(call->operation->kind) && call->outcome.seq == 0) {
    call->outcome.seq = ++activation.last_number;
  }
  const std::uint64_t bytes = activation.space.bytes();
  Result<state::Answer> answer =
      activation.space.apply(*call->operation, call->function->rules, node_.store.now());
  if (!answer) {
    call->outcome.error = answer.error();
  } else {
    call->outcome.answer = *std::move(answer);
  }
  state::Changes changes = activation.space.takeChanges();
  if (changes.empty()) {
    settleRead(call, its_session);
  } else {
    settleWrite(call, its_session, std::move(changes));
    call->function->metrics->kept.change(activation.key, grownBy(activation, bytes));
  }
}

// ---- Commits

void FunctionHost::commit(Activation& activation, store::Batch batch) {
  if (mustBeRecorded(activation)) {
    reserveNumbers(activation);
    batch.operations.emplace_back(putRecord(activation, activation.record_version + 1));
  } else {
    batch.conditions.emplace_back(
        store::require::RecordVersion{kSessionSpace, kSessionRecord, activation.record_version});
  }
  send(activation, std::move(batch));
}

void FunctionHost::send(Activation& activation, store::Batch batch) {
  store::Chained chained;
  chained.after = activation.newest;
  activation.newest = std::make_shared<Gate>(activation.commits);
  chained.listener = activation.newest;
  node_.store.commit(activation.partition, std::move(batch), std::move(chained));
}

void FunctionHost::noteAccess(Activation& activation) {
  activation.record.last_access = node_.store.now();
  if (activation.instance) activation.record.instance = activation.instance->instance->id();
}

void FunctionHost::settleWrite(const CallPtr& call, const ActivationPtr& activation,
                               state::Changes changes, std::optional<events::CallAppend> append) {
  noteAccess(*activation);
  store::Batch batch;
  batch.operations.reserve(changes.size() + 1);
  state::appendTo(batch, std::move(changes), activation->space);
  if (append) {
    std::move(append->operations.begin(), append->operations.end(),
              std::back_inserter(batch.operations));
    batch.listings = std::move(append->listings);
  }
  if (call->journal) call->journal->addTo(batch, *call);
  if (!call->sent.empty()) queued_.addSent(batch, *call, activation);
  countBytes(*activation);
  commit(*activation, std::move(batch));
  if (append && append->intent) {
    group_.add(settleAfterIntent(call, activation->newest, *std::move(append->intent)));
    return;
  }
  activation->newest->settle(call);
}

void FunctionHost::settleRead(const CallPtr& call, const ActivationPtr& activation) {
  if (activation == nullptr) {
    // What a driven call has sent goes with its end.
    if (!call->sent.empty() && !call->is_driven) return queued_.sendStateless(call);
    return call->settle();
  }
  noteAccess(*activation);
  store::Batch batch;
  if (call->journal) call->journal->addTo(batch, *call);
  if (!call->sent.empty()) queued_.addSent(batch, *call, activation);
  if (!batch.operations.empty() || mustBeRecorded(*activation) || !isSurelyOurs(*activation)) {
    commit(*activation, std::move(batch));
  }
  activation->newest->settle(call);
}

// ---- Activations

ActivationPtr FunctionHost::findUsable(const std::string& session_key) {
  const auto found = activations_.find(session_key);
  if (found == activations_.end()) return nullptr;
  if (!found->second->isDoomed()) return found->second;
  forget(found);
  return nullptr;
}

void FunctionHost::whenActive(const std::string& session_key, const FunctionPtr& function,
                              Activated then) {
  if (ActivationPtr activation = findUsable(session_key)) return then(std::move(activation));
  std::vector<Activated>& waiting = loading_[session_key];
  waiting.push_back(std::move(then));
  if (waiting.size() == 1) group_.add(loadActivation(session_key, function));
}

Task<> FunctionHost::loadActivation(std::string session_key, FunctionPtr function) {
  // Refused if the session was changed between the reading and the claim: by our own last commit
  // before it was forgotten, or by another owner.
  Result<ActivationPtr> activation = co_await load(session_key, function);
  for (int again = 0; again < kClaimRetries; ++again) {
    if (activation || activation.error().code() != Code::VersionConflict) break;
    activation = co_await load(session_key, function);
  }
  if (!activation && activation.error().code() == Code::VersionConflict) {
    activation = Error(Code::Fenced, "the session is being taken over again and again");
  }
  if (activation) {
    activations_[session_key] = *activation;
    by_use_.push_back(**activation);
    use(**activation);
    countBytes(**activation);
    if (isOverBudget()) evict(node_.clock.now());
    node_.counts.activations.fetch_add(1, std::memory_order_relaxed);
    queued_.onActivated(**activation);
  }
  needsTicks();
  const auto waiting = loading_.extract(session_key);
  for (const Activated& then : waiting.mapped()) then(activation);
}

// The key of this node, if it may claim a session that was found to belong to `owner`.
Task<Result<std::string>> FunctionHost::placeOf(std::string owner, std::string session_key) {
  if (node_.members == nullptr) co_return std::string();
  NIMBUS_CO_TRY(
      cluster::Members::Place place,
      co_await node_.members->place(std::move(owner), cluster::pointOf(id_, session_key)));
  if (place.is_here) {
    node_.members->elsewhere().forget(id_, session_key);
    co_return std::move(place.self);
  }
  node_.members->elsewhere().remember(id_, session_key, place.owner);
  co_return cluster::movedTo({std::move(place.owner), id_, std::move(session_key)});
}

bool FunctionHost::isSurelyOurs(const Activation& activation) const {
  return node_.members == nullptr || node_.members->isSure(activation.term, node_.clock.now());
}

void FunctionHost::claimAnew(Activation& activation) const {
  const std::uint64_t term = node_.members->term();
  if (term == activation.term || term == 0) return;
  activation.term = term;
  activation.record.owner = node_.members->self();
  activation.must_be_recorded = true;
}

// What was read is still so when the claim is applied: the claim expects the version of the record
// that was read, and whoever changes the session changes that.
Task<Result<ActivationPtr>> FunctionHost::load(std::string session_key, FunctionPtr function) {
  auto activation =
      std::make_shared<Activation>(session_key, linePartition(function->id, session_key));
  std::vector<store::Query> queries = state::loadQueries();
  const std::size_t state_answers = queries.size();
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  NIMBUS_CO_TRY(std::vector<store::Answer> answers,
                co_await node_.store.read(activation->partition, std::move(queries)));
  const auto stored = std::get<std::optional<store::Record>>(std::move(answers[state_answers]));
  answers.resize(state_answers);
  NIMBUS_CO_TRY(activation->space,
                co_await state::loadSpace(node_.store, activation->partition, std::move(answers)));
  const Timestamp now = node_.store.now();
  SessionRecord& record = activation->record;
  if (stored) {
    NIMBUS_CO_TRY(record, SessionRecord::fromJson(stored->value));
    activation->record_version = stored->version;
  }
  activation->term = node_.members != nullptr ? node_.members->term() : 0;
  NIMBUS_CO_TRY(std::string owner, co_await placeOf(record.owner, session_key));
  // After a restart it is nobody's who was ever met.
  const bool was_others =
      record.owner != owner && node_.members != nullptr && node_.members->hasMet(record.owner);
  const bool is_new = !stored || record.isOver(now);
  activation->came_by = is_new ? Route::Created : (was_others ? Route::Moved : Route::Miss);
  record.owner = std::move(owner);
  if (is_new) record.created_at = now;
  record.timeout = function->session_timeout;
  record.last_access = now;
  activation->last_number = record.reserved;
  reserveNumbers(*activation);
  if (record.has_work) {
    NIMBUS_CO_TRY(activation->backlog, co_await queued_.load(activation->partition));
  }

  store::Batch batch;
  const store::Version version =
      stored ? versionOfClaim(stored->version) : versionOfFirstClaim(node_.random.next());
  batch.operations.emplace_back(putRecord(*activation, version));
  if (!stored && !isLane(session_key)) {
    batch.listings.push_back({sessionDirectory(function->id), session_key, ""});
  }
  activation->newest = std::make_shared<Gate>(activation->commits);
  store::Chained chained;
  chained.listener = activation->newest;
  store::PendingCommit claim =
      node_.store.commit(activation->partition, std::move(batch), std::move(chained));
  NIMBUS_CO_CHECK(co_await claim.applied());
  if (is_new && !isLane(session_key)) function->metrics->kept.change(session_key, {1, 0});
  co_return activation;
}

Task<Result<>> FunctionHost::removeSession(std::string session_key) {
  store::Batch batch;
  NIMBUS_CO_TRY(batch.listings, co_await queued_.cancelAll(session_key));
  queued_.failWaiting(session_key, wasDeleted());
  if (const auto found = activations_.find(session_key); found != activations_.end()) {
    forget(found);
  }
  removed_[session_key] = node_.clock.now();
  batch.operations.emplace_back(store::op::DropPartition{});
  batch.listings.push_back({sessionDirectory(id_), session_key, std::nullopt});
  store::PendingCommit commit =
      node_.store.commit(linePartition(id_, session_key), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await commit.done());
  co_return Result<>();
}

// A session that leaves the memory is written down exactly, so that its numbers go on without a
// gap.
void FunctionHost::writeDown(Activation& activation) {
  const SessionRecord& record = activation.record;
  store::Batch batch;
  queued_.tidy(activation, batch);
  if (record.reserved == activation.last_number && record.last_access == activation.recorded_at &&
      !activation.must_be_recorded) {
    return;
  }
  activation.record.reserved = activation.last_number;
  batch.operations.emplace_back(putRecord(activation, activation.record_version + 1));
  send(activation, std::move(batch));
}

std::size_t FunctionHost::handOver(Reason reason) {
  const cluster::ViewPtr view = node_.members->view();
  const SteadyTime now = node_.clock.now();
  std::size_t left = 0;
  for (auto place = activations_.begin(); place != activations_.end();) {
    Activation& activation = *place->second;
    if (activation.isDoomed()) {
      forget(place++);
      continue;
    }
    const std::string_view next = view->proposedFor(cluster::pointOf(id_, activation.key));
    const bool must_go = !next.empty() && next != view->self;
    const bool is_left_alone = reason == Reason::Leaving || isAtRest(activation, now);
    const bool is_kept = !activation.isDurable() || loading_.contains(activation.key);
    if (!must_go || !is_left_alone || is_kept) {
      if (must_go) ++left;
      ++place;
      continue;
    }
    if (!queued_.letGo(activation) || place->second.use_count() > 1) {
      ++left;
      ++place;
      continue;
    }
    activation.record.owner = next;
    activation.must_be_recorded = true;
    writeDown(activation);
    forget(place++);
  }
  return left;
}

void FunctionHost::use(Activation& activation) {
  activation.last_use = node_.clock.now();
  if (!activation.is_linked()) return;  // it was forgotten while its call waited for it
  by_use_.splice(by_use_.end(), by_use_, by_use_.iterator_to(activation));
}

void FunctionHost::countBytes(Activation& activation) {
  const std::size_t bytes = activation.bytes();
  const std::size_t before = std::exchange(activation.counted_bytes, bytes);
  if (bytes == before) return;
  node_.counts.activation_bytes.fetch_add(bytes - before, std::memory_order_relaxed);
}

bool FunctionHost::isOverBudget() const {
  const std::size_t most = node_.cache.max_bytes;
  return most != 0 && node_.counts.activation_bytes.load(std::memory_order_relaxed) > most;
}

bool FunctionHost::isInUse(const Activation& activation) const {
  const auto place = activations_.find(activation.key);
  return place->second.use_count() > 1 || !activation.isDurable() ||
         (activation.backlog && activation.backlog->isBusy());
}

bool FunctionHost::evict(SteadyTime now) {
  const auto wasUsedLately = [&](const Activation& activation) {
    return node_.cache.idle == Millis::zero() || now - activation.last_use <= node_.cache.idle;
  };
  auto place = by_use_.begin();
  for (int looked_at = 0; place != by_use_.end() && looked_at < kEvictedAtOnce; ++looked_at) {
    Activation& oldest = *place;
    if (wasUsedLately(oldest) && !isOverBudget()) return true;
    ++place;
    if (isInUse(oldest)) continue;
    writeDown(oldest);
    forget(activations_.find(oldest.key));
  }
  return place == by_use_.end();
}

// ---- Instances

std::shared_ptr<Pool> FunctionHost::poolOf(const FunctionPtr& function) {
  for (const auto& pool : pools_) {
    if (&pool->function() == function.get()) return pool;
  }
  Pool::Parts parts{node_.keeper, node_.clock, *this};
  pools_.push_back(std::make_shared<Pool>(function, executor_, parts));
  needsTicks();
  return pools_.back();
}

std::string FunctionHost::nextInstanceId() {
  return fmt::format("vm-{}-{:08x}", id_, static_cast<std::uint32_t>(node_.random.next()));
}

void FunctionHost::onLog(std::string_view request_id, std::string_view stream,
                         std::string_view lines) {
  log_->add(node_.store.now(), stream, lines, request_id);
}

Task<Result<>> FunctionHost::tryOut(FunctionPtr function) {
  NIMBUS_CO_TRY(runtime::Ends ends, co_await function->launcher->launch());
  class Deaf final : public runtime::Instance::Listener {
    void onFrame(runtime::Instance&, const runtime::Frame&) override {}
    void onOutput(runtime::Instance&, runtime::Stream, std::string_view) override {}
    void onEnd(runtime::Instance&, const std::string&) override {}
  };
  Deaf deaf;
  runtime::Instance instance("try-out", executor_, std::move(ends), node_.keeper, deaf);
  TaskGroup life(executor_, "try-out of " + id_);
  life.add(instance.run());
  life.add(instance.listenToOutput());
  Result<> loaded = co_await instance.load(loadHead(*function), Millis(30'000));
  instance.kill("tried out");
  co_await life.join();
  co_return loaded;
}

void FunctionHost::onState(Pool::Running& running, const runtime::Frame& frame) {
  const Result<JsonValue> head = parseJson(frame.head);
  if (!head || !head->integer("id")) return;
  const std::int64_t id = *head->integer("id");
  const auto instance = running.member->instance;
  const auto scope = state::scopeNamed(head->string("scope").value_or("session"));
  if (head->string("operation") == "load" && running.space != nullptr) {
    std::vector<std::string> keys;
    const auto asked = head->member("keys");
    if (asked) {
      for (const JsonValue& key : asked->elements()) keys.emplace_back(key.string().value_or(""));
    }
    writeLoaded(instance->outgoing(), running.request, id, *running.space, asked ? &keys : nullptr);
    instance->flushSoon();
    return;
  }
  if (head->string("operation") == "events.recent") {
    group_.add(replyRecentEvents(instance, running.request, id, head->integer("count").value_or(0),
                                 running.call));
    return;
  }
  const auto operation = readOperation(*head, frame);
  if (!operation || !scope || *scope == state::Scope::Invocation) {
    const Result<state::Answer> refused =
        Error(Code::InvalidArgument, "there is no such operation or scope");
    writeStateReply(instance->outgoing(), running.request, id, state::Operation::Kind::Get,
                    refused);
    instance->flushSoon();
    return;
  }
  if (*scope == state::Scope::Function) {
    group_.add(replyFromFunctionState(instance, running.request, id, *operation, running.call));
  } else {
    group_.add(replyFromDefaultSession(instance, running.request, id, *operation, running.call));
  }
}

Task<> FunctionHost::replyFromFunctionState(std::shared_ptr<runtime::Instance> instance,
                                            std::uint64_t request, std::int64_t id,
                                            state::Operation operation, CallPtr call) {
  const state::Operation::Kind kind = operation.kind;
  const SteadyTime begun = node_.clock.now();
  const Result<state::Answer> answer = co_await state::applyInStore(
      node_.store, functionStatePartition(id_), std::move(operation), call->function->rules);
  call->function->metrics->operation(kind, state::Scope::Function, codeOf(answer),
                                     node_.clock.now() - begun);
  writeStateReply(instance->outgoing(), request, id, kind, answer);
  instance->flushSoon();
}

// Here or on the node that owns the session, which may be changing.
Task<Result<state::Answer>> FunctionHost::operateAnywhere(FunctionPtr function,
                                                          std::string request_id,
                                                          state::Operation operation) {
  Result<state::Answer> answer = Error(Code::Internal, "nobody was asked");
  for (int attempt = 0; attempt < kOwnersAsked; ++attempt) {
    CallPtr act(new Call);
    act->function = function;
    act->request_id = request_id;
    act->session_key = "_default";
    act->operation = operation;
    node_.submit(act);
    co_await act->settled.wait();
    answer = std::move(act->outcome.answer);
    if (act->outcome.error) answer = *act->outcome.error;
    std::optional<cluster::Moved> moved;
    if (!answer) moved = cluster::movedIn(answer.error());
    if (!moved || !node_.operate) co_return answer;
    answer = co_await node_.operate(*std::move(moved), std::move(act));
    if (answer || !cluster::movedIn(answer.error())) co_return answer;
    asio::steady_timer pause(executor_, kSoon);
    co_await pause.async_wait(asio::use_awaitable);
  }
  co_return answer;
}

Task<> FunctionHost::replyFromDefaultSession(std::shared_ptr<runtime::Instance> instance,
                                             std::uint64_t request, std::int64_t id,
                                             state::Operation operation, CallPtr call) {
  const state::Operation::Kind kind = operation.kind;
  const SteadyTime begun = node_.clock.now();
  Result<state::Answer> answer = co_await operateAnywhere(
      call->function, fmt::format("{}/{}", call->request_id, id), std::move(operation));
  call->function->metrics->operation(kind, state::Scope::Session, codeOf(answer),
                                     node_.clock.now() - begun);
  writeStateReply(instance->outgoing(), request, id, kind, answer);
  instance->flushSoon();
}

// ---- Time

void FunctionHost::needsTicks() {
  if (ticks_soon_ || stopping_) return;
  ticks_soon_ = true;
  timer_.expires_at(node_.clock.now() + kSoon);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) tick();
  });
}

void FunctionHost::tick() {
  const SteadyTime now = node_.clock.now();
  SteadyTime next = SteadyTime::max();
  for (std::size_t i = 0; i < pools_.size();) {
    next = std::min(next, pools_[i]->tick(now));
    // An older version that has nothing left to do.
    if (i + 1 < pools_.size() && pools_[i]->isIdle()) {
      group_.add(endPool(std::move(pools_[i])));
      pools_.erase(pools_.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
  }
  if (now >= next_balance_ && node_.members != nullptr && node_.members->hasOthers() &&
      !node_.members->isLeaving()) {
    next_balance_ = now + kBalancePeriod;
    handOver(Reason::Balance);
  }
  if (now >= next_eviction_) {
    std::erase_if(removed_, [&](const auto& one) { return now - one.second > kRememberRemoval; });
    next_eviction_ = now + (evict(now) ? kEvictionPeriod : kSoon);
  }
  if (!activations_.empty()) next = std::min(next, next_eviction_);
  ticks_soon_ = next <= now + kSoon;
  if (next == SteadyTime::max() || stopping_) return;
  timer_.expires_at(next);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) tick();
  });
}

Task<> FunctionHost::endPool(std::shared_ptr<Pool> pool) {
  co_await pool->stop();
}

void FunctionHost::cancelRunning(const Call& call) {
  for (const auto& pool : pools_) pool->cancel(call);
}

Task<> FunctionHost::retire() {
  for (const auto& [key, activation] : activations_) queued_.failWaiting(key, wasDeleted());
  while (!activations_.empty()) forget(activations_.begin());
  for (const auto& pool : std::exchange(pools_, {})) co_await pool->stop();
}

Task<> FunctionHost::stop() {
  stopping_ = true;
  timer_.cancel();
  for (const auto& [key, activation] : activations_) queued_.failWaiting(key, serverStops());
  co_await queued_.stop();
  for (const auto& pool : std::exchange(pools_, {})) co_await pool->stop();
  for (const auto& [key, activation] : activations_) {
    if (!activation->isDoomed()) writeDown(*activation);
  }
  co_await group_.join();
}

}  // namespace nimbus::session
