#include "session/calls.h"

#include "base/json_text.h"
#include "base/log.h"
#include "base/wake_together.h"
#include "cluster/moved.h"
#include "session/dispatch_metrics.h"
#include "session/shard.h"
#include "state/stored.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <fmt/format.h>

#include <any>
#include <atomic>
#include <exception>
#include <functional>
#include <utility>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;
using dispatch::Async;
using dispatch::SubmitStatus;
using dispatch::TaskOutcome;

// What divides the id of a function from the key of a session in the dispatcher's name of it:
// neither can hold it.
constexpr char kDivider = '\0';
constexpr std::uint32_t kNoLimit = 1U << 30U;
// How long calls may take to notice that their instances are gone.
constexpr Millis kPatience{500};

Error noSession(std::string_view session_key) {
  return {Code::NotFound, fmt::format("there is no session \"{}\"", printable(session_key))};
}

Async<TaskOutcome> nothingToDo() {
  co_return TaskOutcome::ok();
}

}  // namespace

Calls::Calls(Parts parts, Threads& threads)
    : node_{std::move(parts.node_id),
            parts.store,
            parts.keeper,
            parts.clock,
            parts.random,
            counts_,
            parts.keep_results,
            parts.keep_parked,
            parts.cache,
            [this](const CallPtr& call) {
              if (const Result<> taken = submit(call); !taken) call->fail(taken.error());
            },
            std::move(parts.find),
            [this](CallPtr call, Millis delay) { return sendAnywhere(std::move(call), delay); },
            [this](const LineName& line) { submitDrive(line); },
            parts.members,
            std::move(parts.operate),
            [this](const LineName& line, const LineNote& note) { setNote(line, note); }},
      threads_(threads),
      forward_(std::move(parts.forward)),
      keep_answers_(parts.keep_answers),
      due_timer_(threads.executor(0)),
      background_(threads.executor(0), "asynchronous calls"),
      census_(parts.store, parts.clock, function_metrics_, threads.executor(0), {}) {
  for (std::size_t i = 0; i < threads.size(); ++i) {
    shards_.push_back(std::make_unique<Shard>());
    shards_.back()->executor = threads.executor(i);
  }
  dispatch::DispatcherConfig config;
  config.pool_size = threads.size();
  config.queue_size = 0;
  config.session_queue_size = kNoLimit;  // each call brings its function's
  config.task_timeout = dispatch::Duration::zero();
  config.max_results = 0;
  config.session_idle_time = std::chrono::seconds(1);
  config.place = [this](std::string_view name, std::size_t) {
    return shardOf(name.substr(0, name.find(kDivider)));
  };
  config.schedule = [this](std::size_t worker) {
    asio::post(threads_.context(worker), [this, worker] {
      const WakeTogether together;  // what they commit is one transaction
      dispatcher_->run(worker);
    });
  };
  dispatcher_ = std::make_unique<dispatch::Dispatcher>(
      std::move(config),
      [this](const dispatch::Task& task, std::stop_token) { return handle(task); });
}

Calls::~Calls() = default;

void Calls::start() {
  asio::post(threads_.context(0), [this] {
    census_.start();
    background_.add(resumeWork());
    background_.add(followMembers());
    background_.add(runDue());
    background_.add(sweepListings(kInvocationDirectory, kInvocationSpace));
    background_.add(sweepListings(kIdempotencyDirectory, kIdempotencySpace));
  });
}

std::string Calls::nameOf(std::string_view function_id, std::string_view session_key) {
  std::string name;
  name.reserve(function_id.size() + 1 + session_key.size());
  name.append(function_id).push_back(kDivider);
  name.append(session_key);
  return name;
}

// A stateless call is a session of its own: in nobody's way.
std::string Calls::nameOf(const Call& call) {
  if (call.session_key) return nameOf(call.function->id, *call.session_key);
  return nameOf(call.function->id, std::string(1, kDivider) + call.request_id);
}

std::size_t Calls::shardOf(std::string_view function_id) const {
  return std::hash<std::string_view>()(function_id) % shards_.size();
}

FunctionHost& Calls::hostOf(Shard& shard, const std::string& function_id) {
  std::unique_ptr<FunctionHost>& host = shard.hosts[function_id];
  if (!host) {
    host = std::make_unique<FunctionHost>(node_, function_id, shard.executor, logOf(function_id));
  }
  return *host;
}

std::shared_ptr<FunctionLog> Calls::logOf(std::string_view function_id) {
  const std::lock_guard lock(logs_mutex_);
  std::shared_ptr<FunctionLog>& log = logs_[std::string(function_id)];
  if (!log) log = std::make_shared<FunctionLog>();
  return log;
}

Result<> Calls::submit(const CallPtr& call) {
  Result<> taken = take(call);
  if (!taken && !call->operation && !cluster::movedIn(taken.error())) {
    call->function->metrics->callEnded(taken.error().code());
  }
  return taken;
}

Result<> Calls::take(const CallPtr& call) {
  if (stopping_.load(std::memory_order_relaxed)) {
    return Error(Code::Unavailable, "the server is stopping");
  }
  dispatch::Task task;
  task.id = call->request_id;
  task.session_id = nameOf(*call);
  task.payload = call;
  if (call->only_if_idle) {
    task.session_queue_size = 1;
  } else if (call->function->max_waiting != 0) {
    task.session_queue_size = call->function->max_waiting + 1;  // and one that runs
  }
  if (node_.members != nullptr && node_.members->hasOthers() && call->session_key) {
    NIMBUS_CHECK(checkElsewhere(call->function->id, *call->session_key));
  }
  call->accepted_at = node_.clock.now();
  FunctionMetrics& metrics = *call->function->metrics;
  if (metrics.noted.value() != 0) NIMBUS_CHECK(checkNote(*call, task));
  metrics.waiting.add();  // before: its turn may come at once
  const SubmitStatus status = dispatcher_->submit(std::move(task));
  if (status != SubmitStatus::Accepted) metrics.waiting.add(-1);
  switch (status) {
    case SubmitStatus::Accepted:
      return {};
    case SubmitStatus::QueueFull: {
      if (call->only_if_idle) {
        metrics.refused_busy.add();
        return Error(Code::Conflict, "the session is busy");
      }
      const auto session = dispatcher_->session(nameOf(*call));
      const std::size_t unfinished = session ? session->unfinished_tasks : 0;
      return queueFull(*call, unfinished);
    }
    case SubmitStatus::DuplicateId:
      return Error(Code::Internal, "a call with this request id is under way");
    default:
      return Error(Code::Unavailable, "the server is stopping");
  }
}

void Calls::abandon(Call& call) {
  if (!call.claim()) return;
  call.function->metrics->waiting.add(-1);
  dispatcher_->cancel(call.request_id);
  call.fail(Error(Code::Conflict, "its caller left before the call's turn came"));
}

Async<TaskOutcome> Calls::handle(const dispatch::Task& task) {
  const CallPtr* const given = std::any_cast<CallPtr>(&task.payload);
  if (given == nullptr) {
    const LineName& line = std::any_cast<const Drive&>(task.payload).line;
    Shard& shard = *shards_[shardOf(line.function_id)];
    return hostOf(shard, line.function_id).queued().drive(line.key);
  }
  CallPtr call = *given;
  Shard& shard = *shards_[shardOf(call->function->id)];
  if (!call->claim()) return nothingToDo();
  call->function->metrics->waiting.add(-1);
  return hostOf(shard, call->function->id).run(std::move(call));
}

Task<Result<>> Calls::tryOutOn(Shard& shard, FunctionPtr function) {
  const std::string id = function->id;
  co_return co_await hostOf(shard, id).tryOut(std::move(function));
}

Task<Result<>> Calls::tryOut(FunctionPtr function) {
  Shard& shard = *shards_[shardOf(function->id)];
  co_return co_await on(shard.executor, tryOutOn(shard, std::move(function)));
}

// ---- Sessions

Task<Result<SessionView>> Calls::show(std::string function_id, std::string session_key) {
  LineName line{function_id, session_key};
  NIMBUS_CO_CHECK(co_await mustBeHere(std::move(line)));
  co_return co_await look(std::move(function_id), std::move(session_key));
}

Task<Result<SessionView>> Calls::look(std::string function_id, std::string session_key) {
  NIMBUS_CO_TRY(SessionView view, co_await read(function_id, session_key));
  Shard& shard = *shards_[shardOf(function_id)];
  NIMBUS_CO_TRY(
      view, co_await on(shard.executor, refreshOn(shard, std::move(function_id), std::move(view))));
  if (view.record.isOver(node_.store.now())) co_return noSession(session_key);
  co_return view;
}

// The owner of a session knows newer things of it than the store; who was the owner does not.
Task<Result<SessionView>> Calls::refreshOn(Shard& shard, std::string function_id,
                                           SessionView view) {
  const auto host = shard.hosts.find(function_id);
  if (host == shard.hosts.end()) co_return view;
  const Activation* const activation = host->second->find(view.session_key);
  if (activation == nullptr || !isOfOneClaim(activation->record_version, view.version)) {
    co_return view;
  }
  view.record = activation->record;
  view.next_number = activation->last_number + 1;
  co_return view;
}

Task<Result<SessionView>> Calls::read(std::string function_id, std::string session_key) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  store::query::ScanRecords keys;
  keys.space = state::kSpace;
  keys.limit = 1000;
  keys.values = store::Values::Omit;
  queries.emplace_back(std::move(keys));
  queries.emplace_back(store::query::GetUsage{state::kSpace});
  NIMBUS_CO_TRY(
      std::vector<store::Answer> answers,
      co_await node_.store.read(sessionPartition(function_id, session_key), std::move(queries)));
  const auto stored = std::get<std::optional<store::Record>>(std::move(answers[0]));
  if (!stored) co_return noSession(session_key);
  SessionView view;
  NIMBUS_CO_TRY(view.record, SessionRecord::fromJson(stored->value));
  view.version = stored->version;
  view.next_number = view.record.reserved + 1;
  for (const store::Record& record : std::get<store::RecordPage>(answers[1]).items) {
    view.state_keys.push_back(record.key);
  }
  view.total_size = std::get<store::Usage>(answers[2]).bytes;
  const std::string name = nameOf(function_id, session_key);
  const LineNote note = noteOf(name);
  view.paused = view.record.is_paused || note.is_paused;
  const auto line = dispatcher_->session(name);
  const std::size_t unfinished =
      note.waiting + (line ? line->unfinished_tasks : 0) - (line && note.has_driver ? 1 : 0);
  view.running = line && line->unfinished_tasks > 0 && unfinished > 0;
  view.waiting = unfinished - (view.running ? 1 : 0);
  view.session_key = std::move(session_key);
  co_return view;
}

Task<Result<SessionPage>> Calls::list(std::string function_id, std::string after, std::size_t limit,
                                      std::string prefix) {
  SessionPage page;
  while (true) {
    NIMBUS_CO_TRY(
        const store::DirectoryPage entries,
        co_await node_.store.readDirectory(sessionDirectory(function_id), after, prefix, limit));
    for (const store::DirectoryEntry& entry : entries.items) {
      after = entry.key;
      Result<SessionView> view = co_await look(function_id, entry.key);
      if (view) page.items.push_back(*std::move(view));
      if (!view && view.error().code() != Code::NotFound) co_return view.error();
      if (page.items.size() == limit) break;
    }
    if (page.items.size() == limit) page.next = after;
    if (page.items.size() == limit || !entries.more) co_return page;
  }
}

Task<Result<>> Calls::removeOn(Shard& shard, std::string function_id, std::string session_key) {
  co_return co_await hostOf(shard, function_id).removeSession(std::move(session_key));
}

Task<Result<>> Calls::remove(std::string function_id, std::string session_key) {
  LineName line{function_id, session_key};
  NIMBUS_CO_CHECK(co_await mustBeHere(std::move(line)));
  NIMBUS_CO_TRY(const KeptTotals gone,
                co_await countSession(node_.store, function_id, session_key));
  Shard& shard = *shards_[shardOf(function_id)];
  NIMBUS_CO_CHECK(co_await on(shard.executor, removeOn(shard, function_id, session_key)));
  if (const auto metrics = function_metrics_.find(function_id)) {
    metrics->kept.change(session_key, {-gone.sessions, -gone.bytes});
  }
  co_return Result<>();
}

Task<Result<>> Calls::removeAll(std::string function_id) {
  constexpr std::size_t kPage = 500;
  Shard& shard = *shards_[shardOf(function_id)];
  while (true) {
    NIMBUS_CO_TRY(const store::DirectoryPage entries,
                  co_await node_.store.readDirectory(sessionDirectory(function_id), "", "", kPage));
    for (const store::DirectoryEntry& entry : entries.items) {
      NIMBUS_CO_CHECK(co_await on(shard.executor, removeOn(shard, function_id, entry.key)));
    }
    if (!entries.more) break;
  }
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    NIMBUS_CO_CHECK(co_await on(shard.executor, removeOn(shard, function_id, laneKey(lane))));
  }
  for (const auto& partition :
       {functionStatePartition(function_id), goneInvocations(function_id)}) {
    store::Batch batch;
    batch.operations.emplace_back(store::op::DropPartition{});
    store::PendingCommit commit = node_.store.commit(partition, std::nullopt, std::move(batch));
    NIMBUS_CO_CHECK(co_await commit.done());
  }
  co_return co_await on(shard.executor, retireOn(shard, function_id));
}

// A later function of that name has a log of its own.
Task<Result<>> Calls::retireOn(Shard& shard, std::string function_id) {
  const auto host = shard.hosts.find(function_id);
  if (host != shard.hosts.end()) co_await host->second->retire();
  std::shared_ptr<FunctionLog> log;
  {
    const std::lock_guard lock(logs_mutex_);
    if (auto known = logs_.extract(function_id)) log = std::move(known.mapped());
  }
  if (log) log->close();
  if (host != shard.hosts.end()) host->second->logTo(logOf(function_id));
  co_return Result<>();
}

// ---- Figures

void Calls::addTo(Metrics& metrics) {
  metrics.onScrape([this](Metrics::Scrape& scrape) { expose(scrape); });
}

void Calls::expose(Metrics::Scrape& scrape) const {
  using Kind = Metrics::Kind;
  function_metrics_.expose(scrape);
  scrape.family(Kind::Gauge, "nimbus_sessions_in_memory", "Sessions that this server holds.");
  scrape.sample({}, static_cast<double>(counts_.activations.load(std::memory_order_relaxed)));
  scrape.family(Kind::Gauge, "nimbus_sessions_in_memory_bytes", "What they take, about.");
  scrape.sample({}, static_cast<double>(counts_.activation_bytes.load(std::memory_order_relaxed)));
  exposeDispatch(scrape, dispatcher_->stats());
}

// ---- The end

Task<Result<>> Calls::stopShard(Shard& shard) {
  for (const auto& [id, host] : shard.hosts) co_await host->stop();
  co_return Result<>();
}

Task<Result<>> Calls::stopBackground() {
  background_.cancel();
  co_await census_.stop();
  co_await background_.join();
  co_return Result<>();
}

Task<> Calls::stop() {
  stopping_.store(true);
  static_cast<void>(co_await on(threads_.executor(0), stopBackground()));
  for (const auto& shard : shards_) {
    static_cast<void>(co_await on(shard->executor, stopShard(*shard)));
  }
  const dispatch::ShutdownReport report = dispatcher_->shutdown(kPatience);
  for (const dispatch::Task& task : report.not_run_tasks) {
    const CallPtr* const given = std::any_cast<CallPtr>(&task.payload);
    if (given == nullptr || !(*given)->claim()) continue;
    const CallPtr& call = *given;
    call->function->metrics->waiting.add(-1);
    call->fail(Error(Code::Unavailable, "the server stopped before the call's turn came"));
  }
}

}  // namespace nimbus::session
