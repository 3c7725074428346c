#include "events/call_append.h"

#include "base/json_text.h"
#include "events/conversations.h"
#include "events/open_session.h"
#include "events/sessions.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

namespace nimbus::events {
namespace {

Result<std::vector<NewEvent>> parseAll(const std::vector<std::string>& texts, Random& random) {
  if (texts.size() > kMaxEvents) {
    return Error(Code::InvalidArgument,
                 fmt::format("a call appends at most {} events, not {}", kMaxEvents, texts.size()));
  }
  std::vector<NewEvent> events;
  std::set<std::string> ids;
  for (const std::string& text : texts) {
    NIMBUS_TRY(NewEvent event, parseEvent(text));
    if (event.id.empty()) event.id = makeEventId(random);
    if (!ids.insert(event.id).second) {
      return Error(Code::InvalidArgument,
                   fmt::format("the event \"{}\" is appended twice", printable(event.id)));
    }
    events.push_back(std::move(event));
  }
  return events;
}

// Ranges, not the names of conversations: what others add to one of these meanwhile stays.
void addEviction(CallAppend& append, const Removal& removal) {
  if (removal.entries.empty()) return;
  store::op::RemoveRange range{kEventLog, 0, 0};
  for (const store::Entry& entry : removal.entries) {
    if (range.from != 0 && entry.seq == range.to + 1) {
      range.to = entry.seq;
      continue;
    }
    if (range.from != 0) append.operations.emplace_back(range);
    range.from = range.to = entry.seq;
  }
  append.operations.emplace_back(range);
  append.operations.emplace_back(countEvicted(removal.entries.size()));
}

Result<> checkState(const store::Usage& usage, const std::vector<Change>& changes) {
  std::uint64_t bytes = usage.bytes;
  for (const Change& change : changes) bytes += change.value ? change.value->size() : 0;
  const bool fits = usage.records + changes.size() <= kMaxStateKeys && bytes <= kMaxStateBytes;
  if (changes.empty() || fits) return {};
  return Error(Code::QuotaExceeded, "the state of the session's event log would become too large");
}

}  // namespace

Task<Result<CallAppend>> planCallAppend(store::Store& store, Random& random, SessionName session,
                                        std::vector<std::string> texts) {
  NIMBUS_CO_TRY(std::vector<NewEvent> events, parseAll(texts, random));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, session.app));
  NIMBUS_CO_TRY(const std::optional<Session> found, co_await findSession(store, session));
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{kEventLog});
  queries.emplace_back(store::query::GetUsage{kStateSpace});
  for (const NewEvent& event : events) {
    queries.emplace_back(store::query::GetEntry{kEventLog, event.id});
  }
  NIMBUS_CO_TRY(const auto answers, co_await store.read(session.partition(), std::move(queries)));
  store::LogInfo info = std::get<store::LogInfo>(answers[0]);
  // What is left of a log that has expired goes before the new one begins.
  const bool is_left_over = !found && info.entries > 0;
  if (is_left_over) info.entries = 0;
  std::vector<NewEvent> unknown;
  StateDelta delta;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& entry = std::get<std::optional<store::Entry>>(answers[i + 2]);
    if (found && entry && entry->fingerprint != events[i].fingerprint) {
      co_return Error(Code::Conflict,
                      fmt::format("there is another event \"{}\"", printable(entry->id)));
    }
    if (found && entry) continue;
    delta.add(events[i].delta);
    unknown.push_back(std::move(events[i]));
  }
  NIMBUS_CO_CHECK(checkState(std::get<store::Usage>(answers[1]), delta.session));
  if (delta.isShared()) NIMBUS_CO_CHECK(co_await checkRoom(store, session, delta));
  const LogName log{session, ""};
  NIMBUS_CO_TRY(const Removal removal,
                co_await evictedBy(store, log, info, unknown, settings.retention));

  CallAppend append;
  const Timestamp now = found ? std::max(store.now(), found->updated_at) : store.now();
  if (!found) append.operations.emplace_back(identityPut(session, now, random));
  append.operations.emplace_back(clockPut(settings, now));
  if (is_left_over) {
    append.operations.emplace_back(store::op::EraseSpace{kStateSpace});
    append.operations.emplace_back(store::op::RemoveRange{kEventLog, 1, UINT64_MAX});
  }
  append.listings = moved(session, found ? std::optional(found->updated_at) : std::nullopt, now);
  if (!found) append.listings.push_back({kAppDirectory, session.app, ""});
  std::vector<store::Operation> changes = operationsOf(delta.session);
  std::move(changes.begin(), changes.end(), std::back_inserter(append.operations));
  if (delta.isShared()) {
    append.intent = Intent{makeIntentId(now, random), delta};
    store::Batch batch;
    addIntent(batch, session, *append.intent);
    std::move(batch.operations.begin(), batch.operations.end(),
              std::back_inserter(append.operations));
    std::move(batch.listings.begin(), batch.listings.end(), std::back_inserter(append.listings));
  }
  addEviction(append, removal);
  for (const NewEvent& event : unknown) {
    const StoredHead head{now, 0, event.timestamp.value_or(now)};
    append.operations.emplace_back(appendOf(kEventLog, event, head, settings.indexes));
  }
  co_return append;
}

Task<Result<std::vector<std::string>>> recentEvents(store::Store& store, SessionName session,
                                                    std::size_t count) {
  std::vector<std::string> texts;
  store::query::ScanLog scan;
  scan.log = kEventLog;
  scan.order = store::Order::Descending;
  scan.limit = count;
  NIMBUS_CO_TRY(const store::EntryPage page,
                co_await store::ask<store::EntryPage>(store, session.partition(), std::move(scan)));
  for (const store::Entry& entry : page.items) texts.push_back(eventText(entry));
  std::reverse(texts.begin(), texts.end());
  co_return texts;
}

}  // namespace nimbus::events
