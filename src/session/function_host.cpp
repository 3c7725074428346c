#include "session/function_host.h"

#include "base/json.h"
#include "base/log.h"
#include "session/invoke_frame.h"
#include "state/stored.h"

#include <boost/asio/co_spawn.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using dispatch::Async;
using dispatch::Signal;

// How long a session that is not used stays in memory.
constexpr Millis kIdleActivation{300'000};
constexpr Millis kEvictionPeriod{5'000};
// At most this many numbers are set aside at once for calls that write nothing.
constexpr std::uint64_t kMaxReserved = 1024;
// How long it is remembered that a session was deleted: until its waiting calls have seen it.
constexpr Millis kRememberRemoval{600'000};

std::chrono::microseconds microsSince(SteadyTime begun, SteadyTime now) {
  return std::chrono::duration_cast<std::chrono::microseconds>(now - begun);
}

Outcome failed(Error error, std::uint64_t seq = 0) {
  Outcome outcome;
  outcome.error = std::move(error);
  outcome.seq = seq;
  return outcome;
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
      group_(executor, "function " + id_) {}

FunctionHost::~FunctionHost() = default;

const Activation* FunctionHost::find(std::string_view session_key) const {
  const auto found = activations_.find(std::string(session_key));
  return found != activations_.end() ? found->second.get() : nullptr;
}

void FunctionHost::forget(std::unordered_map<std::string, ActivationPtr>::iterator place) {
  place->second->unbind();
  activations_.erase(place);
  node_.counts.activations.fetch_sub(1, std::memory_order_relaxed);
}

void FunctionHost::onInstances(int change) {
  node_.counts.instances.fetch_add(static_cast<std::size_t>(change), std::memory_order_relaxed);
}

// ---- Calls

Async<void> FunctionHost::run(CallPtr call) {
  if (!call->session_key) {
    co_await runFunction(std::move(call), nullptr);
    co_return;
  }
  const auto removed = removed_.find(*call->session_key);
  if (removed != removed_.end() && call->accepted_at <= removed->second) {
    call->outcome.set(
        failed(Error(Code::Conflict, "the session was deleted while the call waited")));
    co_return;
  }
  const Result<ActivationPtr> activation = co_await activate(*call);
  if (!activation) {
    call->outcome.set(failed(activation.error()));
    co_return;
  }
  if (call->operation) {
    runOperation(*call, **activation);
  } else {
    co_await runFunction(std::move(call), *activation);
  }
}

std::uint64_t FunctionHost::nextNumber(Activation& activation) {
  return ++activation.last_number;
}

Async<Result<Pool::MemberPtr>> FunctionHost::takeSlot(Pool& pool, ActivationPtr activation) {
  const Pool::MemberPtr bound = activation ? activation->instance : nullptr;
  if (Pool::MemberPtr member = pool.tryTake(bound)) co_return member;
  const Signal<Result<Pool::MemberPtr>> taken = pool.take(bound);
  co_return co_await taken;
}

Async<void> FunctionHost::runFunction(CallPtr call, ActivationPtr activation) {
  const std::uint64_t seq = activation ? nextNumber(*activation) : 0;
  const std::shared_ptr<Pool> pool = poolOf(call->function);
  Result<Pool::MemberPtr> member = co_await takeSlot(*pool, activation);
  if (!member) {
    Outcome outcome = failed(member.error(), seq);
    if (activation) gateRead(outcome, *activation);
    call->outcome.set(std::move(outcome));
    co_return;
  }
  if (activation && call->function->session_affinity) activation->bindTo(*member);

  Pool::Running running;
  running.call = call;
  running.member = *member;
  running.space = activation ? &activation->space : nullptr;
  running.request = pool->nextRequest(**member);
  const Timestamp now = node_.store.now();
  if (activation) activation->space.prune(now);
  session::writeInvoke((*member)->instance->outgoing(), running.request, *call, seq, running.space,
                       now, now + call->timeout);
  const SteadyTime begun = node_.clock.now();
  pool->begin(running);
  Ending ending = co_await running.ended;

  Outcome outcome = conclude(*call, activation.get(), std::move(ending), seq);
  outcome.instance = (*member)->instance->id();
  outcome.duration = microsSince(begun, node_.clock.now());
  call->outcome.set(std::move(outcome));
  co_await running.over;
  pool->release(*member);
}

Outcome FunctionHost::conclude(const Call& call, Activation* activation, Ending ending,
                               std::uint64_t seq) {
  Outcome outcome;
  outcome.seq = seq;
  switch (ending.kind) {
    case Ending::Kind::Returned:
      outcome.status_code = ending.status;
      outcome.body = std::move(ending.body);
      break;
    case Ending::Kind::Raised:
      outcome.error = Error(Code::FunctionError, ending.failure.message);
      outcome.failure = std::move(ending.failure);
      break;
    case Ending::Kind::Crashed:
      outcome.error = Error(Code::FunctionCrashed, std::move(ending.failure.message));
      break;
    case Ending::Kind::TimedOut:
      outcome.error = Error(Code::Timeout, std::move(ending.failure.message));
      break;
  }
  if (activation == nullptr) return outcome;
  const bool keeps =
      ending.kind == Ending::Kind::Returned ||
      (ending.kind == Ending::Kind::Raised && call.function->on_error == OnError::Keep);
  if (keeps && !ending.changes.empty()) {
    const Result<> accepted =
        activation->space.accept(ending.changes, call.function->rules, node_.store.now());
    if (accepted) {
      gateWrite(outcome, *activation, ending.changes);
      return outcome;
    }
    outcome.error = accepted.error();
  }
  gateRead(outcome, *activation);
  return outcome;
}

void FunctionHost::runOperation(Call& call, Activation& activation) {
  Outcome outcome;
  if (state::isWrite(call.operation->kind)) outcome.seq = nextNumber(activation);
  Result<state::Answer> answer =
      activation.space.apply(*call.operation, call.function->rules, node_.store.now());
  if (!answer) {
    outcome.error = answer.error();
  } else {
    outcome.answer = *std::move(answer);
  }
  const state::Changes changes = activation.space.takeChanges();
  if (changes.empty()) {
    gateRead(outcome, activation);
  } else {
    gateWrite(outcome, activation, changes);
  }
  call.outcome.set(std::move(outcome));
}

// ---- Commits

GatePtr FunctionHost::commit(Activation& activation, store::Batch batch) {
  SessionRecord& record = activation.record;
  record.last_access = node_.store.now();
  if (activation.instance) record.instance = activation.instance->instance->id();
  store::op::Put put;
  put.space = kSessionSpace;
  put.key = kSessionRecord;
  put.value = record.toJson();
  put.expected = activation.record_version;
  put.version = ++activation.record_version;
  batch.operations.emplace_back(std::move(put));
  activation.newest = std::make_shared<Gate>(
      node_.store.commit(activation.partition, activation.fence, std::move(batch)));
  return activation.newest;
}

void FunctionHost::gateWrite(Outcome& outcome, Activation& activation,
                             const state::Changes& changes) {
  SessionRecord& record = activation.record;
  record.seq = std::max(record.seq, activation.last_number);
  record.reserved = std::max(record.reserved, record.seq);
  store::Batch batch;
  state::appendTo(batch, changes, activation.space);
  outcome.gate = commit(activation, std::move(batch));
  outcome.drives = true;
}

void FunctionHost::gateRead(Outcome& outcome, Activation& activation) {
  SessionRecord& record = activation.record;
  if (outcome.seq > record.reserved) {
    record.reserved = outcome.seq + activation.reserve_next - 1;
    activation.reserve_next = std::min(2 * activation.reserve_next, kMaxReserved);
    outcome.gate = commit(activation, {});
    outcome.drives = true;
  } else if (!activation.isDurable()) {
    outcome.gate = activation.newest;
  }
}

// ---- Activations

Async<Result<ActivationPtr>> FunctionHost::activate(const Call& call) {
  const std::string& key = *call.session_key;
  if (const auto found = activations_.find(key); found != activations_.end()) {
    if (!found->second->isDoomed()) {
      found->second->last_use = node_.clock.now();
      co_return found->second;
    }
    forget(found);
  }
  const Signal<Result<ActivationPtr>> loaded;
  group_.add(loadActivation(key, call.function, loaded));
  Result<ActivationPtr> activation = co_await loaded;
  if (activation) {
    activations_[key] = *activation;
    node_.counts.activations.fetch_add(1, std::memory_order_relaxed);
  }
  needsTicks();
  co_return activation;
}

Task<> FunctionHost::loadActivation(std::string session_key, FunctionPtr function,
                                    Signal<Result<ActivationPtr>> loaded) {
  loaded.set(co_await load(std::move(session_key), std::move(function)));
}

// What was read is still so when the claim is applied: the claim expects the version of the record
// that was read, and whoever changes the session changes that.
Task<Result<ActivationPtr>> FunctionHost::load(std::string session_key, FunctionPtr function) {
  auto activation =
      std::make_shared<Activation>(session_key, sessionPartition(function->id, session_key));
  std::vector<store::Query> queries = state::loadQueries();
  const std::size_t state_answers = queries.size();
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  queries.emplace_back(store::query::GetLease{kOwnerLease});
  NIMBUS_CO_TRY(std::vector<store::Answer> answers,
                co_await node_.store.read(activation->partition, std::move(queries)));
  const auto lease = std::get<std::optional<store::Lease>>(std::move(answers[state_answers + 1]));
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
  if (!stored || record.isOver(now)) record.created_at = now;
  record.timeout = function->session_timeout;
  record.last_access = now;
  record.seq = record.lastNumber();
  record.reserved = record.seq;
  activation->last_number = record.seq;
  activation->last_use = node_.clock.now();

  store::op::Acquire acquire;
  acquire.lease = kOwnerLease;
  acquire.holder = node_.id;
  acquire.nonce = node_.random.next();
  if (lease) acquire.take_over = lease->token;
  store::op::Put put;
  put.space = kSessionSpace;
  put.key = kSessionRecord;
  put.value = record.toJson();
  put.expected = activation->record_version;
  put.version = ++activation->record_version;
  store::Batch batch;
  batch.operations.emplace_back(std::move(acquire));
  batch.operations.emplace_back(std::move(put));
  if (!stored) batch.listings.push_back({sessionDirectory(function->id), session_key, ""});
  store::PendingCommit claim =
      node_.store.commit(activation->partition, std::nullopt, std::move(batch));
  const Result<store::Applied> applied = co_await claim.applied();
  if (!applied) co_return applied.error();
  activation->fence.lease = kOwnerLease;
  activation->fence.token = applied->get<store::LeaseGranted>(0).token;
  activation->newest = std::make_shared<Gate>(std::move(claim));
  group_.add(driveGate(activation->newest));
  co_return activation;
}

Task<> FunctionHost::driveGate(GatePtr gate) {
  static_cast<void>(co_await gate->drive());
}

Task<Result<>> FunctionHost::removeSession(std::string session_key) {
  if (const auto found = activations_.find(session_key); found != activations_.end()) {
    forget(found);
  }
  removed_[session_key] = node_.clock.now();
  store::Batch batch;
  batch.operations.emplace_back(store::op::DropPartition{});
  batch.listings.push_back({sessionDirectory(id_), session_key, std::nullopt});
  store::PendingCommit commit =
      node_.store.commit(sessionPartition(id_, session_key), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await commit.done());
  co_return Result<>();
}

// A session that is in memory for nothing is written down exactly, so that its numbers go on
// without a gap, and forgotten.
void FunctionHost::evictIdle(SteadyTime now) {
  if (now < next_eviction_) return;
  next_eviction_ = now + kEvictionPeriod;
  std::erase_if(removed_, [&](const auto& one) { return now - one.second > kRememberRemoval; });
  for (auto place = activations_.begin(); place != activations_.end();) {
    Activation& activation = *place->second;
    const bool unused =
        place->second.use_count() == 1 && now - activation.last_use > kIdleActivation;
    if (!unused || !activation.isDurable()) {
      ++place;
      continue;
    }
    if (activation.record.seq != activation.last_number ||
        activation.record.reserved != activation.last_number) {
      activation.record.seq = activation.last_number;
      activation.record.reserved = activation.last_number;
      group_.add(driveGate(commit(activation, {})));
    }
    forget(place++);
  }
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
  const Result<state::Answer> answer = co_await state::applyInStore(
      node_.store, functionStatePartition(id_), std::move(operation), call->function->rules);
  writeStateReply(instance->outgoing(), request, id, kind, answer);
  instance->flushSoon();
}

Task<> FunctionHost::replyFromDefaultSession(std::shared_ptr<runtime::Instance> instance,
                                             std::uint64_t request, std::int64_t id,
                                             state::Operation operation, CallPtr call) {
  const state::Operation::Kind kind = operation.kind;
  CallPtr act(new Call);
  act->function = call->function;
  act->request_id = fmt::format("{}/{}", call->request_id, id);
  act->session_key = "_default";
  act->operation = std::move(operation);
  node_.submit(act);
  Outcome outcome = co_await act->outcome.wait();
  Result<state::Answer> answer = Error(Code::Internal, "no answer");
  if (outcome.error) {
    answer = *outcome.error;
  } else {
    answer = std::move(outcome.answer);
  }
  if (outcome.gate) {
    Result<> durable = Result<>();
    if (outcome.drives) {
      durable = co_await outcome.gate->drive();
    } else {
      durable = co_await outcome.gate->wait();
    }
    if (!durable) answer = durable.error();
  }
  writeStateReply(instance->outgoing(), request, id, kind, answer);
  instance->flushSoon();
}

// ---- Time

void FunctionHost::needsTicks() {
  const SteadyTime soon = node_.clock.now() + Millis(10);
  if (stopping_ || tick_at_ <= soon) return;
  tick_at_ = soon;
  timer_.expires_at(soon);
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
  evictIdle(now);
  if (!activations_.empty()) next = std::min(next, next_eviction_);
  tick_at_ = next;
  if (next == SteadyTime::max() || stopping_) return;
  timer_.expires_at(next);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled) tick();
  });
}

Task<> FunctionHost::endPool(std::shared_ptr<Pool> pool) {
  co_await pool->stop();
}

Task<> FunctionHost::retire() {
  while (!activations_.empty()) forget(activations_.begin());
  for (const auto& pool : std::exchange(pools_, {})) co_await pool->stop();
}

Task<> FunctionHost::stop() {
  stopping_ = true;
  timer_.cancel();
  for (const auto& pool : std::exchange(pools_, {})) co_await pool->stop();
  co_await group_.join();
}

}  // namespace nimbus::session
