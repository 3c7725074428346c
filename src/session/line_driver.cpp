// Who works the lines of a function off; see queued_calls.h.

#include "base/log.h"
#include "cluster/members.h"
#include "cluster/moved.h"
#include "session/attempt.h"
#include "session/queued_calls.h"

#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

using dispatch::Async;
using dispatch::Signal;
using dispatch::TaskOutcome;
using Status = InvocationRecord::Status;

// How soon a line is looked at again that could not be loaded.
constexpr Millis kSoon{1'000};
// How much later than the longest call a line is looked at that another owner has taken.
constexpr Millis kAfterOther{5'000};

}  // namespace

bool QueuedCalls::isLeaving() const {
  return node_.members != nullptr && node_.members->isLeaving() && node_.members->hasOthers();
}

bool QueuedCalls::hasCallers(const std::string& key) const {
  if (orphans_.contains(key)) return true;
  const auto found = active_.find(key);
  return found != active_.end() && found->second->backlog &&
         !found->second->backlog->overtaken.empty();
}

void QueuedCalls::ask(const std::string& key) {
  if (host_.isStopping() || (isLeaving() && !hasCallers(key)) || !driven_.insert(key).second) {
    return;
  }
  node_.drive({function_id_, key});
}

QueuedCalls::Step QueuedCalls::nextInLane(const Backlog& backlog, Timestamp now) const {
  Step step;
  for (std::size_t i = 0; i < backlog.window.size(); ++i) {
    const Timestamp not_before = backlog.window[i].not_before;
    if (not_before <= now) return {Step::Kind::RunItem, i};
    if (!step.wake_at || not_before < *step.wake_at) step.wake_at = not_before;
  }
  const bool more = backlog.in_line > backlog.window.size();
  if (more && backlog.window.size() < kWindow) step.kind = Step::Kind::Read;
  return step;
}

QueuedCalls::Step QueuedCalls::nextStep(const Activation& activation, std::uint64_t up_to,
                                        Timestamp now) const {
  const Backlog& backlog = *activation.backlog;
  if (activation.record.is_paused) return {};
  if (isLane(activation.key)) return nextInLane(backlog, now);
  if (backlog.window.empty() && backlog.in_line > 0) return {Step::Kind::Read};
  const Backlog::Item* const item = backlog.window.empty() ? nullptr : &backlog.window.front();
  const Backlog::Overtaken* const waiting =
      backlog.overtaken.empty() ? nullptr : &backlog.overtaken.front();
  if (item != nullptr && (waiting == nullptr || item->record.seq <= waiting->after)) {
    if (item->record.status == Status::Parked) return {};  // until somebody decides
    if (item->not_before > now) return {Step::Kind::Leave, 0, item->not_before};
    return {item->record.seq > up_to ? Step::Kind::Again : Step::Kind::RunItem};
  }
  if (waiting == nullptr) return {};
  return {waiting->after > up_to ? Step::Kind::Again : Step::Kind::RunWaiting};
}

Async<TaskOutcome> QueuedCalls::drive(std::string key) {
  std::optional<std::uint64_t> up_to;
  bool is_durable = false;
  bool again = false;
  ActivationPtr activation;
  while (!host_.isStopping()) {
    const FunctionPtr function = node_.find(function_id_);
    if (!function) break;
    if (isLeaving() && !hasCallers(key)) break;  // the next owner goes on
    if (activation && activation->isDoomed()) {
      // Another owner runs what there is; who comes back too soon only gets in its way.
      const bool elsewhere = activation->commits->isLostToAnother();
      wakeAt(key, node_.clock.now() + (elsewhere ? function->timeout + kAfterOther : kSoon));
      break;
    }
    const Signal<Result<ActivationPtr>> signal;
    host_.whenActive(key, function,
                     [signal](Result<ActivationPtr> result) { signal.set(std::move(result)); });
    const Result<ActivationPtr> loaded = co_await signal;
    if (!loaded && cluster::movedIn(loaded.error())) {
      failWaiting(key, loaded.error());  // which sends them there
      break;
    }
    if (!loaded) {
      log::warn(
          "asynchronous calls must wait: their session could not be loaded",
          {{"function", function_id_}, {"session", key}, {"error", loaded.error().message()}});
      wakeAt(key, node_.clock.now() + kSoon);
      break;
    }
    activation = *loaded;
    if (!activation->backlog) break;
    remember(*activation);
    if (!up_to) up_to = activation->last_number;
    const Step step = nextStep(*activation, *up_to, node_.store.now());
    bool goes_on = true;
    if (step.kind == Step::Kind::Read) {
      const Signal<bool> done;
      group_.add(readWindow(activation, done));
      co_await done;
    } else if (step.kind == Step::Kind::RunItem) {
      is_durable = false;
      goes_on = co_await runItem(activation, function, step.item);
    } else if (step.kind == Step::Kind::RunWaiting) {
      is_durable = false;
      goes_on = co_await runWaiting(activation);
    } else {
      // What was run is over only when that is durable: until then it may have to run again.
      if (!std::exchange(is_durable, true)) {
        const Signal<bool> done;
        group_.add(reportDurable(activation, done));
        co_await done;
        continue;
      }
      again = step.kind == Step::Kind::Again;
      if (step.wake_at) {
        wakeAt(key, node_.clock.now() + std::max(Millis(1), *step.wake_at - node_.store.now()));
      }
      break;
    }
    if (!goes_on) break;
  }
  driven_.erase(key);
  if (const auto found = active_.find(key); found != active_.end()) {
    activation = found->second;
    const bool is_idle = !activation->backlog || !activation->backlog->isBusy();
    if (is_idle) active_.erase(found);
    if (!activation->isDoomed()) note(*activation);
  }
  if (again || orphans_.contains(key)) ask(key);
  co_return TaskOutcome::ok();
}

CallPtr QueuedCalls::callOf(const Backlog::Item& item, const FunctionPtr& function) const {
  CallPtr call(new Call);
  call->function = function;
  call->request_id = item.id;
  call->session_key = item.record.session_key;
  call->payload = item.request.payload;
  call->traceparent = item.request.traceparent;
  call->timeout = item.request.timeout;
  call->priority = item.request.priority;
  call->accepted_at = node_.clock.now();
  call->attempt = item.record.attempts + 1;
  call->is_driven = true;
  call->outcome.seq = item.record.seq;
  return call;
}

// False: the line must rest.
Async<bool> QueuedCalls::runItem(ActivationPtr activation, FunctionPtr function,
                                 std::size_t place) {
  using Decision = Attempt::Decision;
  Backlog& backlog = *activation->backlog;
  Backlog::Item item = std::move(backlog.window[place]);
  backlog.window.erase(backlog.window.begin() + static_cast<std::ptrdiff_t>(place));
  item.record.started_at = node_.store.now();
  CallPtr call = callOf(item, function);
  auto owned = std::make_unique<Attempt>(node_, host_, item.id, item.record);
  Attempt& attempt = *owned;
  call->journal = std::move(owned);
  backlog.current = Backlog::Current{item.id, call, item.record};
  backlog.current->record.status = Status::Running;
  backlog.current->record.attempts = call->attempt;
  co_await host_.run(call);
  backlog.current.reset();
  if (!item.record.session_key && call->has_begun) {
    store::Batch batch;
    attempt.addTo(batch, *call);
    if (!batch.operations.empty() && !call->sent.empty()) addSent(batch, *call, activation);
    if (!batch.operations.empty()) host_.commit(*activation, std::move(batch));
  }
  const Decision decision = attempt.decision();
  FunctionMetrics& metrics = *function->metrics;
  if (decision != Decision::None) {
    item.record = attempt.record();
    const auto& error = call->outcome.error;
    metrics.callEnded(error ? std::optional(error->code()) : std::nullopt);
  }
  switch (decision) {
    case Decision::Over:
      --backlog.in_line;
      if (item.record.status == Status::Cancelled) metrics.cancelled.add();
      break;
    case Decision::Failed:
    case Decision::Parked:
      --backlog.in_line;
      ++backlog.aside;
      (decision == Decision::Failed ? metrics.failed_for_good : metrics.parked).add();
      keepFew(activation);
      break;
    case Decision::Held:
    case Decision::Again:
      if (decision == Decision::Again) {
        metrics.retried.add();
      } else {
        metrics.parked.add();
      }
      item.not_before = attempt.notBefore();
      backlog.window.push_front(std::move(item));
      break;
    case Decision::None:
      backlog.window.push_front(std::move(item));
      break;
  }
  note(*activation);
  if (decision != Decision::None || !call->has_begun) co_return true;
  wakeAt(activation->key, node_.clock.now() + kSoon);
  co_return false;
}

Async<bool> QueuedCalls::runWaiting(ActivationPtr activation) {
  Backlog& backlog = *activation->backlog;
  const CallPtr call = std::move(backlog.overtaken.front().call);
  backlog.overtaken.pop_front();
  call->is_driven = true;
  call->function->metrics->waiting.add(-1);
  co_await host_.run(call);
  if (!call->has_begun && !call->settled.isSet() && host_.isStopping()) {
    call->fail(Error(Code::Unavailable, "the server is stopping"));
  } else if (!call->has_begun && !call->settled.isSet()) {
    // Its session was lost just now: it waits for the next.
    call->is_driven = false;
    call->function->metrics->waiting.add();
    orphans_[activation->key].push_front({0, call});
  }
  note(*activation);
  co_return true;
}

void QueuedCalls::keepFew(const ActivationPtr& activation) {
  Backlog& backlog = *activation->backlog;
  if (backlog.aside <= kMostAside || backlog.is_dropping || host_.isStopping()) return;
  backlog.is_dropping = true;
  group_.add(dropOldest(activation));
}

Task<> QueuedCalls::dropOldest(ActivationPtr activation) {
  Result<bool> more = true;
  while (more && *more && !host_.isStopping()) more = co_await dropSome(activation);
  activation->backlog->is_dropping = false;
  if (more) co_return;
  log::warn("calls that were given up could not be removed", {{"function", function_id_},
                                                              {"session", activation->key},
                                                              {"error", more.error().message()}});
}

// What became of them is known as long as of others.
Task<Result<bool>> QueuedCalls::dropSome(ActivationPtr activation) {
  Backlog& backlog = *activation->backlog;
  NIMBUS_CO_CHECK(co_await durable(activation));
  if (backlog.aside <= kMostAside) co_return false;
  store::query::ScanQueue scan;
  scan.queue = kCallQueue;
  scan.part = store::QueuePart::Parked;
  scan.limit = std::min(backlog.aside - kMostAside, kWindow);
  NIMBUS_CO_TRY(const auto page, co_await store::ask<store::ItemPage>(
                                     node_.store, activation->partition, std::move(scan)));
  store::Batch batch;
  for (const store::QueueItem& item : page.items) {
    if (changing_.contains(item.id)) co_return false;  // the next that is put aside looks again
    NIMBUS_CO_TRY(const auto stored, co_await store::getRecord(node_.store, activation->partition,
                                                               kInvocationSpace, item.id));
    batch.operations.emplace_back(store::op::Complete{kCallQueue, item.id});
    if (!stored) continue;
    NIMBUS_CO_TRY(const InvocationRecord record, InvocationRecord::fromJson(stored->value));
    batch.operations.emplace_back(
        putInvocation(item.id, record, node_.store.now() + node_.keep_results));
  }
  for (const store::QueueItem& item : page.items) {
    if (changing_.contains(item.id)) co_return false;
  }
  if (activation->isDoomed()) co_return Error(Code::Fenced, "the session has another owner");
  if (page.items.empty()) {
    backlog.aside = 0;  // a sweep has removed them
    co_return false;
  }
  backlog.aside -= std::min(backlog.aside, page.items.size());
  host_.commit(*activation, std::move(batch));
  co_return true;
}

// What is being made durable when this begins is seen by it; what comes meanwhile may be seen or
// not, and is read the next time.
Task<> QueuedCalls::readWindow(ActivationPtr activation, Signal<bool> done) {
  Backlog& backlog = *activation->backlog;
  const std::size_t known = backlog.in_line;
  backlog.is_reading = true;
  backlog.gone_meanwhile.clear();
  const Result<> before = co_await durable(activation);
  Result<std::vector<Backlog::Item>> items = std::vector<Backlog::Item>();
  if (before) items = co_await readItems(activation->partition);
  backlog.is_reading = false;
  if (before && items) {
    std::erase_if(*items, [&](const Backlog::Item& item) {
      return std::find(backlog.gone_meanwhile.begin(), backlog.gone_meanwhile.end(), item.id) !=
             backlog.gone_meanwhile.end();
    });
    if (items->empty()) backlog.in_line -= std::min(backlog.in_line, known);
    backlog.window.assign(std::make_move_iterator(items->begin()),
                          std::make_move_iterator(items->end()));
  } else if (before) {
    log::warn("asynchronous calls could not be read", {{"function", function_id_},
                                                       {"session", activation->key},
                                                       {"error", items.error().message()}});
    boost::asio::steady_timer pause(timer_.get_executor(), kSoon);
    boost::system::error_code ignored;
    co_await pause.async_wait(boost::asio::redirect_error(boost::asio::use_awaitable, ignored));
  }
  done.set(true);
}

Task<Result<std::vector<Backlog::Item>>> QueuedCalls::readItems(store::Partition partition) {
  store::query::ScanQueue scan;
  scan.queue = kCallQueue;
  scan.limit = kWindow;
  NIMBUS_CO_TRY(const auto page,
                co_await store::ask<store::ItemPage>(node_.store, partition, std::move(scan)));
  std::vector<Backlog::Item> items;
  if (page.items.empty()) co_return items;
  std::vector<store::Query> queries;
  for (const store::QueueItem& stored : page.items) {
    queries.emplace_back(store::query::GetRecord{kInvocationSpace, stored.id});
  }
  NIMBUS_CO_TRY(auto answers, co_await node_.store.read(partition, std::move(queries)));
  for (std::size_t i = 0; i < page.items.size(); ++i) {
    const store::QueueItem& stored = page.items[i];
    const auto record = std::get<std::optional<store::Record>>(std::move(answers[i]));
    if (!record) continue;
    Backlog::Item item;
    item.id = stored.id;
    NIMBUS_CO_TRY(item.request, QueuedRequest::fromJson(stored.payload));
    NIMBUS_CO_TRY(item.record, InvocationRecord::fromJson(record->value));
    item.not_before = stored.not_before;
    items.push_back(std::move(item));
  }
  co_return items;
}

// ---- Time

void QueuedCalls::wakeAt(const std::string& key, SteadyTime time) {
  wakes_.emplace(time, key);
  setTimer();
}

void QueuedCalls::setTimer() {
  if (wakes_.empty() || host_.isStopping()) return;
  timer_.expires_at(wakes_.begin()->first);
  timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    const SteadyTime now = node_.clock.now();
    while (!wakes_.empty() && wakes_.begin()->first <= now) {
      ask(wakes_.extract(wakes_.begin()).value().second);
    }
    setTimer();
  });
}

}  // namespace nimbus::session
