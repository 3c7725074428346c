#include "session/census.h"

#include "base/log.h"
#include "session/session_record.h"
#include "state/stored.h"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>

#include <utility>
#include <vector>

namespace nimbus::session {
namespace {

namespace asio = boost::asio;

constexpr std::size_t kPage = 100;

}  // namespace

Task<Result<KeptTotals>> countSession(store::Store& store, std::string function_id,
                                      std::string session_key) {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kSessionSpace, kSessionRecord});
  queries.emplace_back(store::query::GetUsage{state::kSpace});
  NIMBUS_CO_TRY(
      std::vector<store::Answer> answers,
      co_await store.read(sessionPartition(function_id, session_key), std::move(queries)));
  KeptTotals found;
  found.bytes = static_cast<std::int64_t>(std::get<store::Usage>(answers[1]).bytes);
  if (const auto& stored = std::get<std::optional<store::Record>>(answers[0])) {
    NIMBUS_CO_TRY(const SessionRecord record, SessionRecord::fromJson(stored->value));
    if (!record.isOver(store.now())) found.sessions = 1;
  }
  co_return found;
}

Census::Census(store::Store& store, const SteadyClock& clock, const FunctionMetricsTable& table,
               const asio::any_io_executor& executor, Options options)
    : store_(store),
      clock_(clock),
      table_(table),
      executor_(executor),
      options_(options),
      group_(executor, "census") {}

void Census::start() {
  group_.add(countForEver());
}

Task<> Census::stop() {
  group_.cancel();
  co_await group_.join();
}

Task<> Census::pause(std::chrono::nanoseconds time) {
  asio::steady_timer timer(executor_, time);
  co_await timer.async_wait(asio::use_awaitable);
}

Task<> Census::countForEver() {
  SteadyTime next = clock_.now();
  while (true) {
    const bool all = clock_.now() >= next;
    if (all) next = clock_.now() + options_.count_every;
    for (const auto& [id, metrics] : table_.all()) {
      if (!all && metrics->kept.totals()) continue;
      if (const Result<> counted = co_await count(id, metrics); !counted) {
        log::warn("the sessions of a function could not be counted",
                  {{"function", id}, {"error", counted.error().message()}});
      }
    }
    co_await pause(options_.look_every);
  }
}

Task<Result<>> Census::count(std::string function_id, std::shared_ptr<FunctionMetrics> metrics) {
  metrics->kept.beginCount();
  Result<> counted = co_await countSessions(function_id, metrics);
  if (!counted) {
    metrics->kept.abandonCount();
    co_return counted;
  }
  store::query::GetUsage usage;
  usage.space = state::kSpace;
  const Result<store::Usage> shared = co_await store::ask<store::Usage>(
      store_, functionStatePartition(function_id), std::move(usage));
  if (!shared) {
    metrics->kept.abandonCount();
    co_return shared.error();
  }
  metrics->kept.endCount(static_cast<std::int64_t>(shared->bytes));
  co_return Result<>();
}

Task<Result<>> Census::countSessions(std::string function_id,
                                     std::shared_ptr<FunctionMetrics> metrics) {
  const int rest = metrics->kept.totals() ? options_.rest : options_.first_rest;
  std::string after;
  bool more = true;
  while (more) {
    const SteadyTime begun = clock_.now();
    NIMBUS_CO_TRY(const store::DirectoryPage page,
                  co_await store_.readDirectory(sessionDirectory(function_id), after, "", kPage));
    for (const store::DirectoryEntry& entry : page.items) {
      NIMBUS_CO_TRY(const KeptTotals found, co_await countSession(store_, function_id, entry.key));
      metrics->kept.counted(entry.key, found);
      after = entry.key;
    }
    more = page.more;
    if (more) co_await pause(rest * (clock_.now() - begun));
  }
  co_return Result<>();
}

}  // namespace nimbus::session
