// Asynchronous calls: from any thread to the shard of their function, and what goes on with them in
// the background.

#include "base/log.h"
#include "cluster/moved.h"
#include "session/calls.h"
#include "session/outbox.h"
#include "session/shard.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using dispatch::SubmitStatus;

// How many entries of a directory are looked at together, and for one answer.
constexpr std::size_t kPage = 100;
constexpr std::size_t kMostLookedAt = 5'000;
// How long a look at what is due is good for.
constexpr Millis kLookAgain{60'000};
constexpr Millis kSoon{1'000};
// Results that are kept no longer leave a listing behind: how often some of these are looked at.
constexpr Millis kSweepEvery{1'000};
constexpr std::size_t kSwept = 50;
constexpr Millis kStale{30'000};
constexpr Millis kDrainLook{10};
// A change may be missed by a watch that begins at the same time.
constexpr Millis kLongestWatch{1'000};

// Set by whichever comes first: a change in the store, or the end of the patience.
struct Nudge {
  std::atomic<bool> is_set = false;
  OneShotEvent event;

  void set() {
    if (!is_set.exchange(true)) event.set();
  }
};

}  // namespace

// ---- Between the dispatcher and the lines

void Calls::submitDrive(const LineName& line) {
  dispatch::Task task;
  task.session_id = nameOf(line.function_id, line.key);
  task.payload = Drive{line};
  static_cast<void>(dispatcher_->submit(std::move(task)));  // refused only when we are stopping
}

void Calls::setNote(const LineName& line, const LineNote& note) {
  int change = 0;
  {
    const std::lock_guard lock(notes_mutex_);
    std::string name = nameOf(line.function_id, line.key);
    const bool says_something = note.waiting != 0 || note.is_paused || note.is_draining;
    if (says_something) {
      change = notes_.insert_or_assign(std::move(name), note).second ? 1 : 0;
    } else {
      change = -static_cast<int>(notes_.erase(name));
    }
  }
  if (change == 0) return;
  if (const FunctionPtr function = node_.find(line.function_id)) {
    function->metrics->noted.add(change);
  }
}

LineNote Calls::noteOf(const std::string& name) const {
  const std::lock_guard lock(notes_mutex_);
  const auto found = notes_.find(name);
  return found != notes_.end() ? found->second : LineNote();
}

Error Calls::queueFull(const Call& call, std::size_t unfinished) const {
  call.function->metrics->refused_full.add();
  const std::size_t waiting = unfinished > 0 ? unfinished - 1 : 0;
  return Error(Code::QueueFull, "too many calls are waiting for this session")
      .with("queue_length", static_cast<std::int64_t>(waiting))
      .with("limit", call.function->max_waiting)
      .with("retry_after_ms", retryAfter(waiting, call.function->metrics->turn).count());
}

Result<> Calls::checkNote(const Call& call, dispatch::Task& task) const {
  const LineNote note = noteOf(task.session_id);
  if (note.is_draining) {
    return Error(Code::Conflict, "the session takes no calls until it is resumed");
  }
  if (call.only_if_idle && (note.waiting != 0 || note.is_paused)) {
    call.function->metrics->refused_busy.add();
    return Error(Code::Conflict, "the session is busy");
  }
  const std::uint32_t most = call.function->max_waiting;
  if (call.only_if_idle || most == 0) return {};
  if (note.waiting > most) return queueFull(call, note.waiting);
  task.session_queue_size =
      most + 1 - static_cast<std::uint32_t>(note.waiting) + (note.has_driver ? 1 : 0);
  return {};
}

// ---- What callers ask for

Task<Result<std::uint64_t>> Calls::acceptOn(Shard& shard, CallPtr call, Millis delay,
                                            std::size_t ahead) {
  const std::string id = call->function->id;
  co_return co_await hostOf(shard, id).queued().accept(std::move(call), delay, ahead);
}

Task<Result<std::uint64_t>> Calls::accept(CallPtr call, Millis delay) {
  if (stopping_.load(std::memory_order_relaxed)) {
    co_return Error(Code::Unavailable, "the server is stopping");
  }
  call->accepted_at = node_.clock.now();
  std::size_t ahead = 0;
  if (node_.members != nullptr && node_.members->hasOthers()) {
    NIMBUS_CO_CHECK(checkElsewhere(
        call->function->id, call->session_key ? *call->session_key : laneOf(call->request_id)));
  }
  if (call->session_key) {
    const std::string name = nameOf(*call);
    if (const auto line = dispatcher_->session(name)) {
      ahead = line->unfinished_tasks;
      if (ahead > 0 && noteOf(name).has_driver) --ahead;
    }
  }
  Shard& shard = *shards_[shardOf(call->function->id)];
  const Timestamp due = node_.store.now() + delay;
  NIMBUS_CO_TRY(const std::uint64_t seq,
                co_await on(shard.executor, acceptOn(shard, std::move(call), delay, ahead)));
  if (delay > Millis::zero() && due.time_since_epoch().count() < next_due_.load()) {
    lookForDue();
  }
  co_return seq;
}

void Calls::lookForDue() {
  asio::post(threads_.context(0), [this] {
    next_due_ = 0;  // the look that may be under way was too early
    due_timer_.cancel();
  });
}

Task<Result<LineName>> Calls::lineOf(std::string request_id) {
  NIMBUS_CO_TRY(const store::DirectoryPage found,
                co_await node_.store.readDirectory(kInvocationDirectory, "", request_id, 1));
  if (found.items.empty() || found.items.front().key != request_id) {
    co_return Error(Code::NotFound, fmt::format("there is no invocation \"{}\"", request_id));
  }
  co_return LineName::fromJson(found.items.front().value);
}

Task<Result<InvocationRecord>> Calls::recordOf(LineName line, std::string request_id) {
  const std::vector<store::Partition> places = {linePartition(line.function_id, line.key),
                                                goneInvocations(line.function_id)};
  for (const store::Partition& place : places) {
    NIMBUS_CO_TRY(const auto stored,
                  co_await store::getRecord(node_.store, place, kInvocationSpace, request_id));
    if (stored) co_return InvocationRecord::fromJson(stored->value);
  }
  co_return Error(Code::NotFound, fmt::format("there is no invocation \"{}\"", request_id));
}

// Who runs it knows more.
Task<Result<Invocation>> Calls::overlayOn(Shard& shard, LineName line, Invocation invocation) {
  const auto host = shard.hosts.find(line.function_id);
  if (host == shard.hosts.end() || invocation.record.isOver()) co_return invocation;
  auto running = host->second->queued().running(line.key, invocation.request_id);
  if (running) invocation.record = *std::move(running);
  co_return invocation;
}

Task<Result<Invocation>> Calls::invocation(std::string request_id) {
  NIMBUS_CO_TRY(const LineName line, co_await lineOf(request_id));
  NIMBUS_CO_TRY(Invocation known, co_await lookAt(line, request_id));
  if (!known.record.isOver()) NIMBUS_CO_CHECK(co_await mustBeHere(line));
  co_return known;
}

Task<Result<Invocation>> Calls::lookAt(LineName line, std::string request_id) {
  Invocation invocation;
  NIMBUS_CO_TRY(invocation.record, co_await recordOf(line, request_id));
  invocation.request_id = std::move(request_id);
  if (invocation.record.isOver()) co_return invocation;
  Shard& shard = *shards_[shardOf(line.function_id)];
  co_return co_await on(shard.executor, overlayOn(shard, line, std::move(invocation)));
}

Task<Result<Invocation>> Calls::awaitInvocation(std::string request_id, Millis patience) {
  const SteadyTime deadline = node_.clock.now() + patience;
  NIMBUS_CO_TRY(const LineName line, co_await lineOf(request_id));
  const store::Partition partition = linePartition(line.function_id, line.key);
  const auto executor = co_await asio::this_coro::executor;
  while (true) {
    const auto nudge = std::make_shared<Nudge>();
    const auto watch = node_.store.watch(partition, [nudge] { nudge->set(); });
    NIMBUS_CO_TRY(Invocation now, co_await invocation(request_id));
    const SteadyTime time = node_.clock.now();
    if (now.record.isOver() || time >= deadline || stopping_.load()) co_return now;
    asio::steady_timer timer(executor, std::min<SteadyTime>(deadline, time + kLongestWatch));
    timer.async_wait([nudge](const boost::system::error_code&) { nudge->set(); });
    co_await nudge->event.wait();
  }
}

Task<Result<InvocationPage>> Calls::invocations(InvocationFilter filter, std::string after,
                                                std::size_t limit) {
  InvocationPage page;
  std::size_t looked_at = 0;
  while (true) {
    NIMBUS_CO_TRY(const store::DirectoryPage entries,
                  co_await node_.store.readDirectory(kInvocationDirectory, after, "", kPage));
    for (const store::DirectoryEntry& entry : entries.items) {
      after = entry.key;
      ++looked_at;
      NIMBUS_CO_TRY(const LineName line, LineName::fromJson(entry.value));
      if (filter.function_id && line.function_id != *filter.function_id) continue;
      if (filter.session_key && line.key != *filter.session_key) continue;
      Result<Invocation> one = co_await lookAt(line, entry.key);
      if (!one && one.error().code() != Code::NotFound) co_return one.error();
      if (!one || (filter.status && one->record.status != *filter.status)) continue;
      page.items.push_back(*std::move(one));
      if (page.items.size() == limit) break;
    }
    const bool is_full = page.items.size() == limit || looked_at >= kMostLookedAt;
    const bool more = entries.more || (!entries.items.empty() && after != entries.items.back().key);
    if (is_full && more) page.next = after;
    if (is_full || !more) co_return page;
  }
}

Task<Result<InvocationRecord>> Calls::changeOn(Shard& shard, LineName line, std::string request_id,
                                               Change change) {
  QueuedCalls& queued = hostOf(shard, line.function_id).queued();
  co_return co_await (queued.*change)(line.key, std::move(request_id));
}

Task<Result<Invocation>> Calls::change(std::string request_id, Change change) {
  NIMBUS_CO_TRY(const LineName line, co_await lineOf(request_id));
  Shard& shard = *shards_[shardOf(line.function_id)];
  Invocation invocation;
  NIMBUS_CO_TRY(invocation.record,
                co_await on(shard.executor, changeOn(shard, line, request_id, change)));
  invocation.request_id = std::move(request_id);
  co_return invocation;
}

Task<Result<Invocation>> Calls::cancel(std::string request_id) {
  return change(std::move(request_id), &QueuedCalls::cancel);
}

Task<Result<Invocation>> Calls::replay(std::string request_id) {
  NIMBUS_CO_TRY(const LineName line, co_await lineOf(request_id));
  store::query::GetItem query{kCallQueue, request_id};
  NIMBUS_CO_TRY(auto item, co_await store::ask<std::optional<store::QueueItem>>(
                               node_.store, goneInvocations(line.function_id), std::move(query)));
  if (!item) co_return co_await change(std::move(request_id), &QueuedCalls::replay);
  co_return co_await replayUnreceived(line, *std::move(item));
}

// It never was in the line it was for; now it is taken there.
Task<Result<Invocation>> Calls::replayUnreceived(LineName line, store::QueueItem item) {
  CallPtr call(new Call);
  call->function = node_.find(line.function_id);
  if (!call->function) {
    co_return Error(Code::NotFound, fmt::format("there is no function \"{}\"", line.function_id));
  }
  NIMBUS_CO_TRY(const QueuedRequest request, QueuedRequest::fromJson(item.payload));
  if (!isLane(line.key)) call->session_key = line.key;
  call->request_id = item.id;
  call->payload = request.payload;
  call->traceparent = request.traceparent;
  call->timeout = call->function->timeout;
  call->may_be_repeated = true;
  NIMBUS_CO_CHECK(co_await accept(std::move(call), Millis::zero()));
  NIMBUS_CO_CHECK(co_await removeItem(goneInvocations(line.function_id), item.id, false));
  co_return co_await invocation(item.id);
}

// ---- Idempotency keys

Task<Result<std::optional<StoredAnswer>>> Calls::takeKey(Idempotency idempotency) {
  NIMBUS_CO_CHECK(keys_in_use_.take(idempotency));
  Result<std::optional<StoredAnswer>> known = co_await storedAnswer(idempotency);
  if (!known || *known) keys_in_use_.release(idempotency.name);
  co_return known;
}

Task<Result<std::optional<StoredAnswer>>> Calls::storedAnswer(Idempotency idempotency) {
  const std::optional<StoredAnswer> none;
  NIMBUS_CO_TRY(const store::DirectoryPage found,
                co_await node_.store.readDirectory(kIdempotencyDirectory, "", idempotency.name, 1));
  if (found.items.empty()) co_return none;
  NIMBUS_CO_TRY(const LineName line, LineName::fromJson(found.items.front().value));
  NIMBUS_CO_TRY(const auto stored,
                co_await store::getRecord(node_.store, linePartition(line.function_id, line.key),
                                          kIdempotencySpace, idempotency.name));
  if (!stored) co_return none;  // it was listed, and its commit was lost; or it has expired
  NIMBUS_CO_TRY(StoredAnswer answer, StoredAnswer::fromJson(stored->value));
  if (answer.fingerprint != idempotency.fingerprint) co_return otherRequest();
  co_return std::optional(std::move(answer));
}

void Calls::keepAnswer(Call& call, Idempotency idempotency, Kept what) {
  AnswerJournal::Options options;
  options.idempotency = std::move(idempotency);
  options.node = node_.id;
  options.is_accepted = what == Kept::Acceptance;
  options.keep = keep_answers_;
  call.journal = std::make_unique<AnswerJournal>(std::move(options), node_.store);
}

Task<Result<>> Calls::keepStatelessAnswer(CallPtr call) {
  store::Batch batch;
  call->journal->addTo(batch, *call);
  if (batch.operations.empty()) co_return Result<>();
  store::PendingCommit commit = node_.store.commit(
      linePartition(call->function->id, laneOf(call->request_id)), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await commit.done());
  co_return Result<>();
}

// ---- Sessions

Task<Result<>> Calls::holdOn(Shard& shard, LineName line, QueuedCalls::Hold hold) {
  co_return co_await hostOf(shard, line.function_id).queued().hold(line.key, hold);
}

Task<Result<>> Calls::hold(std::string function_id, std::string session_key,
                           QueuedCalls::Hold hold) {
  NIMBUS_CO_CHECK(co_await show(function_id, session_key));
  Shard& shard = *shards_[shardOf(function_id)];
  LineName line{std::move(function_id), std::move(session_key)};
  co_return co_await on(shard.executor, holdOn(shard, std::move(line), hold));
}

Task<Result<>> Calls::importSession(SessionCopy copy, std::string prefix) {
  const LineName line{copy.function_id, copy.session_key};
  NIMBUS_CO_CHECK(co_await mustBePlacedHere("", line));
  const Error exists(Code::Conflict,
                     fmt::format("there is a session \"{}\"; delete it first", line.key));
  const store::Partition partition = linePartition(line.function_id, line.key);
  NIMBUS_CO_TRY(const auto before,
                co_await store::getRecord(node_.store, partition, kSessionSpace, kSessionRecord));
  if (before) co_return exists;
  store::Batch batch =
      importBatch(copy, versionOfFirstClaim(node_.random.next()), prefix, node_.store.now());
  std::optional<EventImport> events;
  if (copy.events) {
    events.emplace(
        node_.store,
        events::SessionName{line.function_id, std::string(events::kFunctionUser), line.key},
        *std::exchange(copy.events, std::nullopt));
    const Result<> begun = co_await events->begin(node_.random.next());
    if (!begun) {
      co_await events->giveUp();
      co_return begun;
    }
    events->addTo(batch, node_.random, node_.store.now());
  }
  store::PendingCommit commit =
      node_.store.commit(partition, events ? events->fence() : std::nullopt, std::move(batch));
  const auto imported = co_await commit.done();
  if (!imported) {
    if (events) co_await events->giveUp();
    const Code code = imported.error().code();
    const bool is_there = code == Code::VersionConflict || code == Code::Conflict;
    co_return is_there ? exists : imported.error();
  }
  if (const auto metrics = function_metrics_.find(line.function_id)) {
    metrics->kept.change(line.key, {1, 0});
  }
  if (copy.queue.empty()) co_return Result<>();
  lookForDue();
  Shard& shard = *shards_[shardOf(line.function_id)];
  co_return co_await on(shard.executor, askOn(shard, line));
}

Task<Result<bool>> Calls::isEmptyOn(Shard& shard, LineName line) {
  co_return hostOf(shard, line.function_id).queued().isEmpty(line.key);
}

Task<Result<>> Calls::drain(std::string function_id, std::string session_key) {
  NIMBUS_CO_CHECK(co_await hold(function_id, session_key, QueuedCalls::Hold::Draining));
  const std::string name = nameOf(function_id, session_key);
  const LineName line{function_id, session_key};
  Shard& shard = *shards_[shardOf(function_id)];
  while (true) {
    NIMBUS_CO_TRY(const bool is_empty, co_await on(shard.executor, isEmptyOn(shard, line)));
    const auto session = dispatcher_->session(name);
    if (is_empty && (!session || session->unfinished_tasks == 0)) co_return Result<>();
    if (!noteOf(name).is_draining) {
      co_return Error(Code::Conflict, "the session was resumed before it was empty");
    }
    if (stopping_.load()) co_return Error(Code::Unavailable, "the server is stopping");
    co_await pause(kDrainLook);
  }
}

// ---- In the background

Task<> Calls::pause(Millis time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<Result<>> Calls::askOn(Shard& shard, LineName line) {
  hostOf(shard, line.function_id).queued().ask(line.key);
  co_return Result<>();
}

// What waits is gone on with; what is held stays so. A listing may have outlived its work.
Task<Result<>> Calls::resume(store::DirectoryEntry entry) {
  NIMBUS_CO_TRY(const LineName line, LineName::fromJson(entry.value));
  if (!node_.find(line.function_id)) co_return Result<>();
  const store::Partition partition = linePartition(line.function_id, line.key);
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  queries.emplace_back(store::query::GetQueueInfo{kCallQueue});
  queries.emplace_back(store::query::GetQueueInfo{kOutboxQueue});
  NIMBUS_CO_TRY(auto answers, co_await node_.store.read(partition, std::move(queries)));
  const auto stored = std::get<std::optional<store::Record>>(std::move(answers[0]));
  SessionRecord record;
  if (stored) {
    NIMBUS_CO_TRY(record, SessionRecord::fromJson(stored->value));
  }
  if (const Result<> here = co_await mustBePlacedHere(record.owner, line); !here) {
    if (cluster::movedIn(here.error())) co_return Result<>();  // its owner sees to it
    co_return here;
  }
  if (record.is_paused || record.is_draining) {
    LineNote note;
    note.is_paused = record.is_paused;
    note.is_draining = record.is_draining;
    setNote(line, note);
  }
  const bool has_work = std::get<store::QueueInfo>(answers[1]).waiting != 0 ||
                        std::get<store::QueueInfo>(answers[2]).waiting != 0;
  if (!has_work) co_return Result<>();
  Shard& shard = *shards_[shardOf(line.function_id)];
  co_return co_await on(shard.executor, askOn(shard, line));
}

Task<> Calls::resumeWork() {
  std::string after;
  while (true) {
    auto entries = co_await node_.store.readDirectory(kWorkDirectory, after, "", kPage);
    if (!entries) {
      log::warn("which sessions have work cannot be read", {{"error", entries.error().message()}});
      co_await pause(kSoon);
      continue;
    }
    for (const store::DirectoryEntry& entry : entries->items) {
      after = entry.key;
      const Result<> resumed = co_await resume(entry);
      if (resumed) continue;
      log::warn("a session with work cannot be resumed",
                {{"session", entry.key}, {"error", resumed.error().message()}});
    }
    if (!entries->more) co_return;
  }
}

Task<Result<>> Calls::joinOn(Shard& shard, LineName line, std::string request_id) {
  co_return co_await hostOf(shard, line.function_id).queued().join(line.key, request_id);
}

Task<Result<>> Calls::joinDue(store::DirectoryEntry entry) {
  const auto due = readDue(entry.key);
  NIMBUS_CO_TRY(const LineName line, LineName::fromJson(entry.value));
  const store::Partition partition = linePartition(line.function_id, line.key);
  bool is_there = false;
  if (due && node_.find(line.function_id)) {
    store::query::GetItem query{kCallQueue, due->request_id};
    NIMBUS_CO_TRY(const auto item, co_await store::ask<std::optional<store::QueueItem>>(
                                       node_.store, partition, std::move(query)));
    is_there = item && item->part == store::QueuePart::Scheduled;
  }
  if (is_there) {
    Shard& shard = *shards_[shardOf(line.function_id)];
    co_return co_await on(shard.executor, joinOn(shard, line, due->request_id));
  }
  store::Batch batch;
  batch.listings.push_back({kDueDirectory, entry.key, std::nullopt});
  store::PendingCommit commit = node_.store.commit(partition, std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await commit.done());
  co_return Result<>();
}

Task<> Calls::runDue() {
  while (true) {
    Millis wait = kLookAgain;
    next_due_ = INT64_MAX;  // whoever comes from now on says so
    const auto entries = co_await node_.store.readDirectory(kDueDirectory, "", "", kPage);
    if (!entries) wait = kSoon;
    for (std::size_t i = 0; entries && i < entries->items.size(); ++i) {
      const auto due = readDue(entries->items[i].key);
      const Timestamp now = node_.store.now();
      if (due && due->at > now) {
        wait = std::min(wait, due->at - now);
        break;
      }
      const Result<> joined = co_await joinDue(entries->items[i]);
      if (joined) {
        if (i + 1 == entries->items.size() && entries->more) wait = Millis::zero();
        continue;
      }
      wait = std::min(wait, kSoon);
      if (cluster::movedIn(joined.error())) continue;  // its owner sees to it
      log::warn("a call that is due cannot be run",
                {{"call", entries->items[i].key}, {"error", joined.error().message()}});
    }
    if (next_due_.load() == 0) continue;
    next_due_ = (node_.store.now() + wait).time_since_epoch().count();
    due_timer_.expires_after(wait);
    boost::system::error_code ignored;
    co_await due_timer_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

// A call that can be replayed, and of which nothing more is to be known. A call that waits has its
// record from the same commit on.
Task<Result<>> Calls::removeItem(store::Partition partition, std::string request_id, bool if_lone) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetItem{kCallQueue, request_id});
  queries.emplace_back(store::query::GetRecord{kInvocationSpace, request_id});
  NIMBUS_CO_TRY(const auto answers, co_await node_.store.read(partition, std::move(queries)));
  const bool has_record = std::get<std::optional<store::Record>>(answers[1]).has_value();
  if (!std::get<std::optional<store::QueueItem>>(answers[0]) || (has_record && if_lone)) {
    co_return Result<>();
  }
  store::Batch batch;
  batch.operations.emplace_back(store::op::Complete{kCallQueue, request_id});
  batch.operations.emplace_back(store::op::Erase{kInvocationSpace, request_id, std::nullopt});
  store::PendingCommit commit =
      node_.store.commit(std::move(partition), std::nullopt, std::move(batch));
  const auto removed = co_await commit.done();
  if (!removed && removed.error().code() != Code::NotFound) co_return removed.error();
  co_return Result<>();
}

// Whether nothing is there that the listing leads to; what it was called with goes, too.
Task<Result<bool>> Calls::leadsNowhere(store::DirectoryEntry entry, std::string space) {
  NIMBUS_CO_TRY(const LineName line, LineName::fromJson(entry.value));
  for (const store::Partition& place :
       {linePartition(line.function_id, line.key), goneInvocations(line.function_id)}) {
    NIMBUS_CO_TRY(const auto record,
                  co_await store::getRecord(node_.store, place, space, entry.key));
    if (record) co_return false;
    if (space == kInvocationSpace) NIMBUS_CO_CHECK(co_await removeItem(place, entry.key, true));
  }
  co_return true;
}

Task<> Calls::sweepListings(const char* directory, const char* space) {
  std::string after;
  // A listing is written before what it lists: it must have led nowhere for a while.
  std::unordered_map<std::string, SteadyTime> since;
  while (true) {
    co_await pause(kSweepEvery);
    const auto entries = co_await node_.store.readDirectory(directory, after, "", kSwept);
    if (!entries) continue;
    const SteadyTime now = node_.clock.now();
    store::Batch batch;
    for (const store::DirectoryEntry& entry : entries->items) {
      after = entry.key;
      const Result<bool> is_stale = co_await leadsNowhere(entry, space);
      if (!is_stale) continue;
      if (!*is_stale) {
        since.erase(entry.key);
      } else if (now - since.emplace(entry.key, now).first->second >= kStale) {
        since.erase(entry.key);
        batch.listings.push_back({directory, entry.key, std::nullopt});
      }
    }
    if (!batch.listings.empty()) {
      store::PendingCommit commit =
          node_.store.commit({"sweep", {directory}}, std::nullopt, std::move(batch));
      static_cast<void>(co_await commit.done());
    }
    if (!entries->more) after.clear();
    if (since.size() > kMostLookedAt) since.clear();
  }
}

}  // namespace nimbus::session
