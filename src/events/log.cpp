#include "events/log.h"

#include "base/json_text.h"
#include "events/appending.h"
#include "events/conversations.h"
#include "events/shared_state.h"
#include "events/tracks.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

using store::Entry;
using store::Seq;

Error noEvent(std::string_view id) {
  return {Code::NotFound, fmt::format("there is no event \"{}\"", printable(id))};
}

}  // namespace

Task<Result<AppendAnswer>> Log::append(LogName log, std::vector<NewEvent> events,
                                       AppendOptions options) {
  Appending appending(std::move(log), std::move(events), options, random_);
  const SessionName& session = appending.log().session;
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await settings_.read(session.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(auto answer, co_await (attempt == 0 ? tryAppendUnseen(appending, settings)
                                                      : tryAppend(appending, settings)));
    if (answer) co_return *std::move(answer);
  }
  co_return tooContended();
}

// Without a look at the session, if it is known and nothing else has to be known.
Task<Result<std::optional<AppendAnswer>>> Log::tryAppendUnseen(Appending& appending,
                                                               const AppSettings& settings) {
  const SessionName& session = appending.log().session;
  const std::string partition = session.partition().name();
  std::optional<Session> known;
  if (appending.needsNoLook(settings)) known = known_.take(partition);
  // What does not fit what is known may fit what is.
  if (!known || !appending.assume(*known)) co_return co_await tryAppend(appending, settings);
  const Timestamp now = turns_.stamp(store_.now(), known->updated_at);
  store::Batch batch = appending.batch(settings, store_.now(), now, Removal());
  batch.conditions.emplace_back(store::require::RecordVersion{kSpace, kClock, known->clock});
  auto pending = store_.commit(session.partition(), std::nullopt, std::move(batch));
  const auto done = co_await pending.done();
  if (!done) {
    if (isOvertaken(done.error())) co_return std::optional<AppendAnswer>();
    co_return done.error();
  }
  known_.put(partition, appending.sessionAfter(*done));
  co_return std::optional(appending.answer(*done));
}

// Nothing if others were faster: then it is tried again.
Task<Result<std::optional<AppendAnswer>>> Log::tryAppend(Appending& appending,
                                                         const AppSettings& settings) {
  const SessionName& session = appending.log().session;
  NIMBUS_CO_TRY(const OpenedLog found,
                co_await openLog(store_, appending.log(), appending.queries()));
  if (appending.isShared()) {
    NIMBUS_CO_TRY(std::vector<Intent> left, Appending::leftIntents(found));
    for (Intent& intent : left) {
      NIMBUS_CO_CHECK(co_await carryOut(store_, session, std::move(intent)));
    }
  }
  NIMBUS_CO_TRY(std::optional<AppendAnswer> known, appending.look(found, settings));
  if (known) co_return known;
  NIMBUS_CO_CHECK(co_await checkRoom(store_, session, appending.delta()));
  Removal evicted;
  if (appending.hasToMakeRoom()) {
    NIMBUS_CO_TRY(evicted, co_await evictedBy(store_, appending.log(), appending.info(),
                                              appending.unknown(), appending.retention()));
  }
  const Timestamp now = turns_.stamp(store_.now(), found.opened.session.updated_at);
  store::Batch batch = appending.batch(settings, store_.now(), now, std::move(evicted));
  auto pending = store_.commit(session.partition(), std::nullopt, std::move(batch));
  const auto done = co_await pending.done();
  if (!done) {
    if (isOvertaken(done.error())) co_return std::optional<AppendAnswer>();
    co_return done.error();
  }
  if (appending.intent()) {
    NIMBUS_CO_CHECK(co_await carryOut(store_, session, *appending.intent()));
  }
  if (appending.needsNoLook(settings)) {
    known_.put(session.partition().name(), appending.sessionAfter(*done));
  }
  co_return std::optional(appending.answer(*done));
}

Task<Result<AppendAnswer>> Log::replace(LogName log, std::string id, NewEvent event,
                                        std::optional<store::Version> expected) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(log.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await settings_.read(log.session.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<store::Query> queries;
    queries.emplace_back(store::query::GetEntry{log.log(), id});
    NIMBUS_CO_TRY(const OpenedLog found, co_await openLog(store_, log, std::move(queries)));
    const Opened& opened = found.opened;
    const auto& entry = opened.get<std::optional<Entry>>(0);
    if (!entry || found.has_expired) co_return noEvent(id);
    StoredHead head = headOf(entry->value).value_or(StoredHead());
    head.timestamp = event.timestamp.value_or(head.timestamp);
    const Timestamp now = turns_.stamp(store_.now(), opened.session.updated_at);
    store::Batch batch = changeOf(opened.session, settings, now);
    store::op::Amend amend;
    amend.log = log.log();
    amend.id = id;
    amend.value = storedText(event, head);
    amend.terms = termsOf(event, head.timestamp, settings.indexes);
    amend.expected = expected;
    batch.operations.emplace_back(std::move(amend));
    auto pending = store_.commit(log.session.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (!done) {
      if (isGone(done.error())) continue;
      co_return done.error();
    }
    const auto& appended = done->get<store::Appended>(1);
    AppendAnswer answer;
    answer.session_updated_at = now;
    answer.items.push_back({id, appended.seq, appended.version});
    co_return answer;
  }
  co_return tooContended();
}

Task<Result<>> Log::remove(LogName log, std::string id, std::optional<store::Version> expected) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(log.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await settings_.read(log.session.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    NIMBUS_CO_TRY(const OpenedLog found,
                  co_await openLog(store_, log, std::vector<store::Query>()));
    if (found.has_expired) co_return noEvent(id);
    const Opened& opened = found.opened;
    const Timestamp now = turns_.stamp(store_.now(), opened.session.updated_at);
    store::Batch batch = changeOf(opened.session, settings, now);
    store::op::Remove remove;
    remove.log = log.log();
    remove.id = id;
    remove.expected = expected;
    batch.operations.emplace_back(std::move(remove));
    auto pending = store_.commit(log.session.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return Result<>();
    if (isGone(done.error())) continue;
    if (done.error().code() == Code::NotFound) co_return noEvent(id);
    co_return done.error();
  }
  co_return tooContended();
}

Task<Result<std::vector<Entry>>> Log::trim(LogName log, std::size_t conversations) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(log.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await settings_.read(log.session.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<store::Query> queries;
    queries.emplace_back(store::query::GetLogInfo{log.log()});
    NIMBUS_CO_TRY(const OpenedLog found, co_await openLog(store_, log, std::move(queries)));
    if (found.has_expired) co_return std::vector<Entry>();
    const Opened& opened = found.opened;
    NIMBUS_CO_TRY(Removal removal, co_await newestConversations(store_, log, conversations));
    if (removal.entries.empty()) co_return std::vector<Entry>();
    const Timestamp now = turns_.stamp(store_.now(), opened.session.updated_at);
    store::Batch batch = changeOf(opened.session, settings, now);
    batch.conditions.emplace_back(
        store::require::LogUnchanged{log.log(), opened.get<store::LogInfo>(0).revision});
    std::move(removal.operations.begin(), removal.operations.end(),
              std::back_inserter(batch.operations));
    auto pending = store_.commit(log.session.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return std::move(removal.entries);
    if (!isOvertaken(done.error())) co_return done.error();
  }
  co_return tooContended();
}

Task<Result<std::uint64_t>> Log::rewind(LogName log, RewindTo to) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns_.take(log.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await settings_.read(log.session.app));
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::vector<store::Query> queries;
    queries.emplace_back(store::query::GetLogInfo{log.log()});
    if (to.event) queries.emplace_back(store::query::GetEntry{log.log(), *to.event});
    NIMBUS_CO_TRY(const OpenedLog found, co_await openLog(store_, log, std::move(queries)));
    const Opened& opened = found.opened;
    const store::LogInfo info = opened.get<store::LogInfo>(0);
    Seq last = to.seq.value_or(0);
    if (to.event) {
      const auto& entry = opened.get<std::optional<Entry>>(1);
      if (!entry || found.has_expired) co_return noEvent(*to.event);
      last = entry->seq;
    }
    if (last > info.last_seq) {
      co_return Error(Code::NotFound, fmt::format("there is no event with seq {}", last))
          .with("last_seq", static_cast<std::int64_t>(info.last_seq));
    }
    const Timestamp now = turns_.stamp(store_.now(), opened.session.updated_at);
    store::Batch batch = changeOf(opened.session, settings, now);
    batch.conditions.emplace_back(store::require::LogUnchanged{log.log(), info.revision});
    batch.operations.emplace_back(store::op::RemoveRange{log.log(), last + 1, UINT64_MAX});
    auto pending = store_.commit(log.session.partition(), std::nullopt, std::move(batch));
    const auto done = co_await pending.done();
    if (done) co_return found.has_expired ? 0 : done->get<store::Removed>(1).count;
    if (!isOvertaken(done.error())) co_return done.error();
  }
  co_return tooContended();
}

}  // namespace nimbus::events
