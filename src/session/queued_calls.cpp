#include "session/queued_calls.h"

#include "session/outbox.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::session {
namespace {

using dispatch::Signal;
using Status = InvocationRecord::Status;

Error isStopped() {
  return {Code::Unavailable, "the server is stopping"};
}

Error noInvocation(std::string_view request_id) {
  return {Code::NotFound, fmt::format("there is no invocation \"{}\"", request_id)};
}

}  // namespace

// While one of these lives, nobody else changes where that call stands.
class QueuedCalls::Change {
 public:
  Change(QueuedCalls& calls, const std::string& request_id)
      : calls_(calls), id_(request_id), is_mine_(calls.changing_.insert(request_id).second) {}
  ~Change() {
    if (is_mine_) calls_.changing_.erase(id_);
  }
  Change(const Change&) = delete;
  Change& operator=(const Change&) = delete;

  Result<> check() const {
    if (is_mine_) return {};
    return Error(Code::Conflict, "the invocation is being changed").with("retry_after_ms", 100);
  }

 private:
  QueuedCalls& calls_;
  const std::string id_;
  const bool is_mine_;
};

QueuedCalls::QueuedCalls(Node& node, std::string function_id,
                         const boost::asio::any_io_executor& executor, Host& host)
    : node_(node),
      function_id_(std::move(function_id)),
      host_(host),
      timer_(executor),
      group_(executor, "asynchronous calls of " + function_id_),
      sender_(node, function_id_, executor, host, *this) {}

QueuedCalls::~QueuedCalls() = default;

// ---- What is known of a line

void QueuedCalls::note(const Activation& activation) {
  LineNote note;
  note.has_driver = driven_.contains(activation.key);
  note.is_paused = activation.record.is_paused;
  if (const Backlog* const backlog = activation.backlog.get()) {
    note.waiting = backlog->waiting();
    const bool is_held = !backlog->window.empty() && !isLane(activation.key) &&
                         backlog->window.front().record.status == Status::Parked;
    note.is_paused = note.is_paused || is_held;
  }
  note.is_draining = activation.record.is_draining;
  node_.note(nameOf(activation), note);
}

void QueuedCalls::listAsWork(Activation& activation, store::Batch& batch) const {
  if (activation.record.has_work) return;
  activation.record.has_work = true;
  activation.must_be_recorded = true;
  batch.listings.push_back(listWork(nameOf(activation)));
}

Task<Result<ActivationPtr>> QueuedCalls::active(std::string key) {
  const FunctionPtr function = node_.find(function_id_);
  if (!function) {
    co_return Error(Code::NotFound, fmt::format("there is no function \"{}\"", function_id_));
  }
  if (host_.isStopping()) co_return isStopped();
  const auto done = std::make_shared<OneShot<Result<ActivationPtr>>>();
  host_.whenActive(key, function,
                   [done](Result<ActivationPtr> activation) { done->set(std::move(activation)); });
  NIMBUS_CO_TRY(ActivationPtr activation, co_await done->wait(done));
  if (host_.isStopping()) co_return isStopped();
  host_.use(*activation);
  co_return activation;
}

Task<Result<>> QueuedCalls::durable(ActivationPtr activation) {
  CallPtr witness(new Call);
  witness->function = node_.find(function_id_);
  if (!witness->function) co_return Error(Code::NotFound, "the function is gone");
  activation->newest->settle(witness);
  co_await witness->settled.wait();
  if (witness->outcome.error) co_return *witness->outcome.error;
  co_return Result<>();
}

Task<> QueuedCalls::reportDurable(ActivationPtr activation, Signal<bool> done) {
  const Result<> durable_now = co_await durable(std::move(activation));
  done.set(durable_now.has_value());
}

Task<Result<std::unique_ptr<Backlog>>> QueuedCalls::load(store::Partition partition) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetQueueInfo{kCallQueue});
  queries.emplace_back(store::query::GetQueueInfo{kOutboxQueue});
  NIMBUS_CO_TRY(const auto answers,
                co_await node_.store.read(std::move(partition), std::move(queries)));
  const auto& info = std::get<store::QueueInfo>(answers[0]);
  auto backlog = std::make_unique<Backlog>();
  backlog->in_line = info.waiting;
  backlog->scheduled = info.scheduled;
  backlog->aside = info.parked;
  backlog->to_send = std::get<store::QueueInfo>(answers[1]).waiting;
  co_return backlog;
}

// One that was forgotten while somebody waited for the store must not take the place of the next.
void QueuedCalls::remember(Activation& activation) {
  if (activation.is_linked()) active_[activation.key] = activation.shared_from_this();
}

void QueuedCalls::onActivated(Activation& activation) {
  auto orphans = orphans_.extract(activation.key);
  if (!activation.backlog && orphans.empty()) return;
  Backlog& backlog = activation.itsBacklog();
  if (!orphans.empty()) {
    for (Backlog::Overtaken& one : orphans.mapped()) {
      if (one.call->outcome.seq != 0) one.call->outcome.seq = ++activation.last_number;
      one.after = activation.last_number;
      backlog.overtaken.push_back(std::move(one));
    }
  }
  if (backlog.isBusy()) {
    remember(activation);
    ask(activation.key);
  }
  if (backlog.to_send > 0) sender_.deliver(activation.key);
  note(activation);
}

void QueuedCalls::onForgotten(Activation& activation) {
  if (!activation.backlog) return;
  if (!activation.backlog->overtaken.empty()) {
    for (Backlog::Overtaken& one : std::exchange(activation.backlog->overtaken, {})) {
      orphans_[activation.key].push_back(std::move(one));
    }
  }
  const auto known = active_.find(activation.key);
  if (known != active_.end() && known->second.get() == &activation) active_.erase(known);
  // Another look: what was lost with it may be in the line still.
  if (activation.backlog->isBusy() || orphans_.contains(activation.key)) ask(activation.key);
  node_.note(nameOf(activation), LineNote());
}

void QueuedCalls::tidy(Activation& activation, store::Batch& batch) {
  SessionRecord& record = activation.record;
  const Backlog* const backlog = activation.backlog.get();
  const bool is_idle = backlog == nullptr ||
                       (!backlog->isBusy() && backlog->scheduled == 0 && backlog->to_send == 0);
  if (!record.has_work || !is_idle || record.is_paused || record.is_draining) return;
  record.has_work = false;
  activation.must_be_recorded = true;
  batch.listings.push_back(unlistWork(nameOf(activation)));
}

bool QueuedCalls::letGo(const Activation& activation) {
  const Backlog* const backlog = activation.backlog.get();
  if (driven_.contains(activation.key) || sender_.isBusy(activation.key)) return false;
  if (backlog != nullptr && (!backlog->overtaken.empty() || backlog->current)) return false;
  active_.erase(activation.key);
  return true;
}

bool QueuedCalls::isEmpty(const std::string& key) const {
  if (driven_.contains(key) || orphans_.contains(key)) return false;
  const auto found = active_.find(key);
  return found == active_.end() || !found->second->backlog || !found->second->backlog->isBusy();
}

// ---- Callers that wait

bool QueuedCalls::mustWait(const CallPtr& call, Activation& activation) {
  if (call->is_driven) return false;
  Backlog& backlog = *activation.backlog;
  if (!backlog.isBusy() && !activation.record.is_paused) return false;
  const bool has_number = !call->operation || state::isWrite(call->operation->kind);
  if (has_number) call->outcome.seq = ++activation.last_number;
  backlog.overtaken.push_back({activation.last_number, call});
  remember(activation);
  call->function->metrics->waiting.add();
  ask(activation.key);
  note(activation);
  return true;
}

void QueuedCalls::failWaiting(const std::string& key, const Error& why) {
  std::deque<Backlog::Overtaken> waiting;
  if (auto orphans = orphans_.extract(key)) waiting = std::move(orphans.mapped());
  if (const auto found = active_.find(key); found != active_.end() && found->second->backlog) {
    for (auto& one : std::exchange(found->second->backlog->overtaken, {})) {
      waiting.push_back(std::move(one));
    }
  }
  for (const Backlog::Overtaken& one : waiting) {
    one.call->function->metrics->waiting.add(-1);
    one.call->fail(why);
  }
}

// ---- Taking, cancelling, replaying

Task<Result<std::uint64_t>> QueuedCalls::accept(CallPtr call, Millis delay, std::size_t ahead) {
  const std::string key = call->session_key ? *call->session_key : laneOf(call->request_id);
  NIMBUS_CO_TRY(const ActivationPtr activation, co_await active(key));
  if (activation->record.is_draining) {
    co_return Error(Code::Conflict, "the session takes no calls until it is resumed");
  }
  const Change change(*this, call->request_id);
  NIMBUS_CO_CHECK(change.check());
  if (call->may_be_repeated) {
    NIMBUS_CO_CHECK(co_await durable(activation));
    NIMBUS_CO_TRY(const auto before, co_await find(activation->partition, call->request_id));
    if (before) co_return before->record.seq;
    if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
  }
  Backlog& backlog = activation->itsBacklog();
  const bool is_delayed = delay > Millis::zero();
  const std::size_t waiting = is_delayed ? backlog.scheduled : backlog.waiting() + ahead;
  if (waiting > call->function->max_queued) {
    call->function->metrics->refused_full.add();
    co_return Error(Code::QueueFull, "too many calls are waiting for this session")
        .with("queue_length", static_cast<std::int64_t>(waiting - 1))
        .with("limit", call->function->max_queued)
        .with("retry_after_ms", retryAfter(waiting, call->function->metrics->turn).count());
  }

  const Timestamp now = node_.store.now();
  Backlog::Item item;
  item.id = call->request_id;
  item.request = {call->payload, call->traceparent, call->timeout, call->priority};
  item.record.function_id = function_id_;
  item.record.session_key = call->session_key;
  item.record.created_at = now;
  if (is_delayed) item.record.due_at = now + delay;
  if (!is_delayed && call->session_key) item.record.seq = ++activation->last_number;
  call->outcome.seq = item.record.seq;

  store::Batch batch;
  batch.operations.emplace_back(
      store::op::Push{kCallQueue, item.id, item.request.toJson(), item.record.due_at});
  store::op::Put put = putInvocation(item.id, item.record, std::nullopt);
  put.expected = 0;
  batch.operations.emplace_back(std::move(put));
  batch.listings.push_back(listInvocation(item.id, nameOf(*activation)));
  if (is_delayed) {
    batch.listings.push_back(listDue(*item.record.due_at, item.id, nameOf(*activation)));
  }
  listAsWork(*activation, batch);
  if (call->journal) call->journal->addTo(batch, *call);
  host_.commit(*activation, std::move(batch));
  activation->newest->settle(call);
  if (is_delayed) {
    ++backlog.scheduled;
  } else {
    remember(*activation);
    backlog.add(std::move(item));
    ask(key);
  }
  note(*activation);
  call->function->metrics->accepted.add();
  const std::uint64_t seq = call->outcome.seq;
  co_await call->settled.wait();
  if (call->outcome.error) co_return *call->outcome.error;
  co_return seq;
}

Task<Result<std::optional<QueuedCalls::Stored>>> QueuedCalls::find(store::Partition partition,
                                                                   std::string request_id) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetItem{kCallQueue, request_id});
  queries.emplace_back(store::query::GetRecord{kInvocationSpace, request_id});
  NIMBUS_CO_TRY(auto answers, co_await node_.store.read(std::move(partition), std::move(queries)));
  auto item = std::get<std::optional<store::QueueItem>>(std::move(answers[0]));
  const auto record = std::get<std::optional<store::Record>>(std::move(answers[1]));
  if (!record) co_return std::optional<Stored>();
  Stored stored;
  NIMBUS_CO_TRY(stored.record, InvocationRecord::fromJson(record->value));
  if (item) stored.item = *std::move(item);
  co_return std::optional(std::move(stored));
}

Task<Result<>> QueuedCalls::join(std::string key, std::string request_id) {
  NIMBUS_CO_TRY(const ActivationPtr activation, co_await active(key));
  const Change change(*this, request_id);
  NIMBUS_CO_CHECK(change.check());
  NIMBUS_CO_CHECK(co_await durable(activation));
  NIMBUS_CO_TRY(auto stored, co_await find(activation->partition, request_id));
  if (!stored || stored->item.part != store::QueuePart::Scheduled || stored->item.id.empty()) {
    co_return Result<>();
  }
  if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
  Backlog& backlog = activation->itsBacklog();
  Backlog::Item item;
  item.id = request_id;
  NIMBUS_CO_TRY(item.request, QueuedRequest::fromJson(stored->item.payload));
  item.record = std::move(stored->record);
  if (item.record.session_key) item.record.seq = ++activation->last_number;
  store::Batch batch;
  batch.operations.emplace_back(store::op::Join{kCallQueue, request_id});
  batch.operations.emplace_back(putInvocation(request_id, item.record, std::nullopt));
  batch.listings.push_back(unlistDue(stored->item.due_at, request_id));
  remember(*activation);
  host_.commit(*activation, std::move(batch));
  if (backlog.scheduled > 0) --backlog.scheduled;
  backlog.add(std::move(item));
  ask(key);
  note(*activation);
  co_return co_await durable(activation);
}

Task<Result<InvocationRecord>> QueuedCalls::cancel(std::string key, std::string request_id) {
  NIMBUS_CO_TRY(const ActivationPtr activation, co_await active(key));
  const Change change(*this, request_id);
  NIMBUS_CO_CHECK(change.check());
  NIMBUS_CO_CHECK(co_await durable(activation));
  NIMBUS_CO_TRY(auto stored, co_await find(activation->partition, request_id));
  if (!stored) co_return noInvocation(request_id);
  Backlog& backlog = activation->itsBacklog();
  if (backlog.current && backlog.current->id == request_id) {
    backlog.current->call->is_cancelled = true;
    host_.cancelRunning(*backlog.current->call);
    co_return backlog.current->record;
  }
  InvocationRecord& record = stored->record;
  if (record.status == Status::Cancelled) co_return record;
  if (stored->item.id.empty() || record.status == Status::Failed) {
    co_return Error(Code::Conflict,
                    fmt::format("the invocation has ended: {}", statusName(record.status)))
        .with("status", std::string(statusName(record.status)));
  }
  if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
  const Timestamp now = node_.store.now();
  record.status = Status::Cancelled;
  record.finished_at = now;
  store::Batch batch;
  batch.operations.emplace_back(store::op::Complete{kCallQueue, request_id});
  batch.operations.emplace_back(putInvocation(request_id, record, now + node_.keep_results));
  if (stored->item.part == store::QueuePart::Scheduled) {
    batch.listings.push_back(unlistDue(stored->item.due_at, request_id));
    if (backlog.scheduled > 0) --backlog.scheduled;
  }
  if (stored->item.part == store::QueuePart::Parked && backlog.aside > 0) --backlog.aside;
  host_.commit(*activation, std::move(batch));
  if (stored->item.part == store::QueuePart::Line) backlog.remove(request_id);
  if (const FunctionPtr function = node_.find(function_id_)) function->metrics->cancelled.add();
  remember(*activation);
  ask(key);
  note(*activation);
  NIMBUS_CO_CHECK(co_await durable(activation));
  co_return record;
}

Task<Result<InvocationRecord>> QueuedCalls::replay(std::string key, std::string request_id) {
  NIMBUS_CO_TRY(const ActivationPtr activation, co_await active(key));
  const Change change(*this, request_id);
  NIMBUS_CO_CHECK(change.check());
  NIMBUS_CO_CHECK(co_await durable(activation));
  NIMBUS_CO_TRY(auto stored, co_await find(activation->partition, request_id));
  if (!stored) co_return noInvocation(request_id);
  InvocationRecord& record = stored->record;
  const std::string status(statusName(record.status));
  if (record.status != Status::Parked && record.status != Status::Failed) {
    co_return Error(
        Code::Conflict,
        fmt::format("only what was given up or has failed is replayed; it is {}", status))
        .with("status", status);
  }
  if (stored->item.id.empty()) {
    co_return Error(Code::Conflict, "what it was called with is not kept any more")
        .with("status", status);
  }
  if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
  Backlog& backlog = activation->itsBacklog();
  const bool was_aside = stored->item.part == store::QueuePart::Parked;
  record.status = Status::Queued;
  record.attempts = 0;
  record.error.clear();
  record.body.clear();
  record.status_code = 0;
  record.started_at.reset();
  record.finished_at.reset();
  if (was_aside && record.session_key) record.seq = ++activation->last_number;
  store::Batch batch;
  if (was_aside) batch.operations.emplace_back(store::op::Revive{kCallQueue, request_id});
  batch.operations.emplace_back(putInvocation(request_id, record, std::nullopt));
  listAsWork(*activation, batch);
  host_.commit(*activation, std::move(batch));
  remember(*activation);
  if (was_aside && backlog.aside > 0) --backlog.aside;
  if (was_aside) {
    Backlog::Item item;
    item.id = request_id;
    NIMBUS_CO_TRY(item.request, QueuedRequest::fromJson(stored->item.payload));
    item.record = record;
    backlog.add(std::move(item));
  } else {
    for (Backlog::Item& item : backlog.window) {
      if (item.id == request_id) item.record = record;
    }
  }
  ask(key);
  note(*activation);
  NIMBUS_CO_CHECK(co_await durable(activation));
  co_return record;
}

std::optional<InvocationRecord> QueuedCalls::running(const std::string& key,
                                                     const std::string& request_id) const {
  const auto found = active_.find(key);
  if (found == active_.end() || !found->second->backlog) return std::nullopt;
  const auto& current = found->second->backlog->current;
  if (!current || current->id != request_id) return std::nullopt;
  return current->record;
}

Task<Result<>> QueuedCalls::hold(std::string key, Hold hold) {
  NIMBUS_CO_TRY(const ActivationPtr activation, co_await active(key));
  SessionRecord& record = activation->record;
  if (hold == Hold::Draining && record.is_paused) {
    co_return Error(Code::Conflict,
                    "the session is paused: what waits there runs when it is "
                    "resumed");
  }
  store::Batch batch;
  if (hold != Hold::None) listAsWork(*activation, batch);
  record.is_paused = hold == Hold::Paused;
  record.is_draining = hold == Hold::Draining;
  activation->must_be_recorded = true;
  activation->itsBacklog();
  remember(*activation);
  host_.commit(*activation, std::move(batch));
  ask(key);
  note(*activation);
  co_return co_await durable(activation);
}

Task<Result<std::vector<store::Listing>>> QueuedCalls::cancelAll(std::string key) {
  std::vector<store::Listing> listings;
  const store::Partition partition = linePartition(function_id_, key);
  const LineName line{function_id_, key};
  for (const auto part :
       {store::QueuePart::Line, store::QueuePart::Scheduled, store::QueuePart::Parked}) {
    std::optional<store::query::ScanQueue::Position> after;
    bool more = true;
    while (more) {
      store::query::ScanQueue scan;
      scan.queue = kCallQueue;
      scan.part = part;
      scan.after = after;
      NIMBUS_CO_TRY(const auto page,
                    co_await store::ask<store::ItemPage>(node_.store, partition, std::move(scan)));
      store::Batch gone;
      for (const store::QueueItem& item : page.items) {
        after = {item.due_at, item.position};
        NIMBUS_CO_TRY(auto stored, co_await find(partition, item.id));
        if (!stored) continue;
        const Timestamp now = node_.store.now();
        if (stored->record.status != Status::Failed) {
          stored->record.status = Status::Cancelled;
          stored->record.finished_at = now;
        }
        gone.operations.emplace_back(
            putInvocation(item.id, stored->record, now + node_.keep_results));
        if (part == store::QueuePart::Scheduled) {
          listings.push_back(unlistDue(item.due_at, item.id));
        }
      }
      more = page.more;
      if (gone.operations.empty()) continue;
      store::PendingCommit commit =
          node_.store.commit(goneInvocations(function_id_), std::nullopt, std::move(gone));
      NIMBUS_CO_CHECK(co_await commit.done());
    }
  }
  listings.push_back(unlistWork(line));
  node_.note(line, LineNote());
  co_return listings;
}

// ---- What functions send

void QueuedCalls::addSent(store::Batch& batch, const Call& call, const ActivationPtr& activation) {
  addToOutbox(batch, call);
  listAsWork(*activation, batch);
  activation->itsBacklog().to_send += call.sent.size();
  sender_.deliver(activation->key);
}

void QueuedCalls::sendStateless(const CallPtr& call) {
  group_.add(sendFromLane(call));
}

Task<> QueuedCalls::sendFromLane(CallPtr call) {
  const Result<ActivationPtr> activation = co_await active(laneOf(call->request_id));
  if (!activation) {
    call->fail(activation.error());
    co_return;
  }
  store::Batch batch;
  addSent(batch, *call, *activation);
  host_.commit(**activation, std::move(batch));
  (*activation)->newest->settle(call);
}

Task<> QueuedCalls::stop() {
  timer_.cancel();
  wakes_.clear();
  std::vector<std::string> keys;
  for (const auto& [key, activation] : active_) keys.push_back(key);
  for (const auto& [key, orphans] : orphans_) keys.push_back(key);
  for (const std::string& key : keys) failWaiting(key, isStopped());
  co_await sender_.stop();
  co_await group_.join();
}

}  // namespace nimbus::session
