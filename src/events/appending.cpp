#include "events/appending.h"

#include "base/json_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace nimbus::events {
namespace {

using store::Entry;

// Where the answers to queries() are.
constexpr std::size_t kInfo = 0;
constexpr std::size_t kIntents = 1;
constexpr std::size_t kEntries = 2;

Error otherBody(const Entry& entry) {
  return Error(Code::Conflict, fmt::format("there is another event \"{}\"", printable(entry.id)))
      .with("seq", static_cast<std::int64_t>(entry.seq));
}

// Of events that were appended before, as the first time.
AppendAnswer answerAgain(const std::vector<Entry>& known) {
  AppendAnswer answer;
  answer.was_known = true;
  for (const Entry& entry : known) answer.items.push_back({entry.id, entry.seq, 1});
  if (const auto head = headOf(known.back().value)) {
    answer.session_updated_at = head->created_at;
    answer.evicted = head->evicted;
  }
  return answer;
}

}  // namespace

Appending::Appending(LogName log, std::vector<NewEvent> events, AppendOptions options,
                     Random& random)
    : log_(std::move(log)), events_(std::move(events)), options_(options), random_(random) {
  for (NewEvent& event : events_) {
    has_given_id_.push_back(!event.id.empty());
    if (event.id.empty()) event.id = makeEventId(random_);
  }
}

bool Appending::isShared() const {
  return std::any_of(events_.begin(), events_.end(),
                     [](const NewEvent& event) { return event.delta.isShared(); });
}

bool Appending::hasGivenId() const {
  return std::find(has_given_id_.begin(), has_given_id_.end(), true) != has_given_id_.end();
}

std::vector<store::Query> Appending::queries() const {
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetLogInfo{log_.log()});
  queries.emplace_back(scanIntents());
  for (std::size_t i = 0; i < events_.size(); ++i) {
    if (has_given_id_[i]) {
      queries.emplace_back(store::query::GetEntry{log_.log(), events_[i].id});
    }
  }
  return queries;
}

Result<std::vector<Intent>> Appending::leftIntents(const OpenedLog& found) {
  return intentsOf(found.opened.get<store::RecordPage>(kIntents));
}

Result<std::optional<AppendAnswer>> Appending::look(const OpenedLog& found,
                                                    const AppSettings& settings) {
  info_ = found.opened.get<store::LogInfo>(kInfo);
  NIMBUS_CHECK(sort(found));
  if (unknown_.empty()) return std::optional(answerAgain(known_));
  NIMBUS_CHECK(checkExpected(found.opened.session));
  found_ = {
      {found.opened.session, {}}, found.track, found.settings, found.clock, found.has_expired};
  retention_ = log_.track.empty() ? settings.retention : found.settings.retention;
  return std::optional<AppendAnswer>();
}

bool Appending::needsNoLook(const AppSettings& settings) const {
  return log_.track.empty() && !hasGivenId() && !isShared() && settings.retention.max_events == 0;
}

Result<> Appending::assume(const Session& session) {
  found_ = {{session, {}}, std::nullopt, TrackSettings(), 0, false};
  info_ = {session.last_seq, session.event_count, 0};
  retention_ = Retention();
  known_.clear();
  unknown_ = events_;
  delta_ = StateDelta();
  for (const NewEvent& event : events_) delta_.add(event.delta);
  return checkExpected(session);
}

Session Appending::sessionAfter(const store::Applied& applied) const {
  Session session = found_.opened.session;
  session.clock = applied.get<store::RecordWritten>(0).version;
  session.updated_at = changed_at_;
  session.event_count += unknown_.size();
  session.last_seq += unknown_.size();
  return session;
}

// Tells events that are there already from those that are not.
Result<> Appending::sort(const OpenedLog& found) {
  known_.clear();
  unknown_.clear();
  delta_ = StateDelta();
  std::size_t query = kEntries;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    const NewEvent& event = events_[i];
    if (has_given_id_[i]) {
      const auto& entry = found.opened.get<std::optional<Entry>>(query++);
      const bool is_there = entry && !found.has_expired;
      if (is_there && entry->fingerprint != event.fingerprint) return otherBody(*entry);
      if (is_there) {
        known_.push_back(*entry);
        continue;
      }
    }
    unknown_.push_back(event);
    delta_.add(event.delta);
  }
  return {};
}

Result<> Appending::checkExpected(const Session& session) const {
  if (options_.generation && *options_.generation != session.generation) {
    return Error(Code::VersionConflict, "the session was deleted and made again")
        .with("generation", static_cast<std::int64_t>(session.generation));
  }
  if (options_.expected_seq && *options_.expected_seq != info_.last_seq) {
    return Error(Code::VersionConflict, fmt::format("the newest event has seq {}", info_.last_seq))
        .with("last_seq", static_cast<std::int64_t>(info_.last_seq));
  }
  return {};
}

store::Batch Appending::batch(const AppSettings& settings, Timestamp now, Timestamp changed_at,
                              Removal evicted) {
  now_ = now;
  changed_at_ = changed_at;
  store::Batch batch = changeOf(found_.opened.session, settings, changed_at);
  // Stamps run ahead of the clock; a session does not live longer for it.
  std::get<store::op::Put>(batch.operations.front()).expiry = clockExpiry(settings, now);
  addConditions(batch);
  std::vector<store::Operation> changes = operationsOf(delta_.session);
  std::move(changes.begin(), changes.end(), std::back_inserter(batch.operations));
  intent_.reset();
  if (delta_.isShared()) {
    intent_ = Intent{makeIntentId(now, random_), delta_};
    addIntent(batch, log_.session, *intent_);
  }
  if (!log_.track.empty()) {
    if (!found_.track) addTrack(batch, log_.track);
    addTrackClock(batch, log_, found_, now);
  }
  addEviction(batch, std::move(evicted));
  addEvents(batch, settings);
  return batch;
}

void Appending::addConditions(store::Batch& batch) const {
  // What is evicted depends on all of the log; what is known, on its end.
  if (retention_.max_events > 0) {
    batch.conditions.emplace_back(store::require::LogUnchanged{log_.log(), info_.revision});
  } else if (hasGivenId() || options_.expected_seq) {
    batch.conditions.emplace_back(store::require::LogEndsAt{log_.log(), info_.last_seq});
  }
  if (!delta_.session.empty()) batch.conditions.emplace_back(stateWithin());
}

void Appending::addEviction(store::Batch& batch, Removal evicted) {
  evicted_ = evicted.entries.size();
  if (evicted_ == 0) return;
  std::move(evicted.operations.begin(), evicted.operations.end(),
            std::back_inserter(batch.operations));
  if (log_.track.empty()) batch.operations.emplace_back(countEvicted(evicted_));
}

void Appending::addEvents(store::Batch& batch, const AppSettings& settings) {
  first_append_ = batch.operations.size();
  for (const NewEvent& event : unknown_) {
    const bool is_last = &event == &unknown_.back();
    const StoredHead head{changed_at_, is_last ? evicted_ : 0, event.timestamp.value_or(now_)};
    batch.operations.emplace_back(appendOf(log_.log(), event, head, settings.indexes));
  }
}

AppendAnswer Appending::answer(const store::Applied& applied) const {
  AppendAnswer answer;
  answer.session_updated_at = changed_at_;
  answer.evicted = evicted_;
  auto known = known_.begin();
  std::size_t appended = first_append_;
  for (const NewEvent& event : events_) {
    if (known != known_.end() && known->id == event.id) {
      answer.items.push_back({event.id, known->seq, 1});
      ++known;
    } else {
      const auto& place = applied.get<store::Appended>(appended++);
      answer.items.push_back({event.id, place.seq, place.version});
    }
  }
  return answer;
}

}  // namespace nimbus::events
