#include "events/tracks.h"

#include "base/json.h"
#include "base/json_text.h"

#include <fmt/format.h>

#include <utility>

namespace nimbus::events {
namespace {

Error noTrack(const std::string& track) {
  return {Code::NotFound, fmt::format("there is no track {}", track)};
}

std::string settingsText(const TrackSettings& settings) {
  return fmt::format(R"({{"max_events":{},"eviction_batch_size":{},"ttl":{}}})",
                     settings.retention.max_events, settings.retention.batch,
                     secondsOf(settings.ttl));
}

Result<std::uint64_t> countOf(const RawMember& member) {
  NIMBUS_TRY(const JsonValue value, parseJson(member.value));
  const auto number = value.integer();
  if (number && *number >= 0) return static_cast<std::uint64_t>(*number);
  return Error(Code::InvalidArgument,
               fmt::format("{}: this must be a whole number, 0 or more", member.name))
      .with("field", member.name);
}

Result<TrackSettings> parseSettings(std::string_view json, TrackSettings settings) {
  NIMBUS_TRY(const std::vector<RawMember> members, splitObject(json));
  for (const RawMember& member : members) {
    if (member.name == "max_events") {
      NIMBUS_TRY(settings.retention.max_events, countOf(member));
    } else if (member.name == "eviction_batch_size") {
      NIMBUS_TRY(settings.retention.batch, countOf(member));
    } else if (member.name == "ttl") {
      NIMBUS_TRY(settings.ttl, parseTtl(member));
    } else {
      return Error(Code::InvalidArgument,
                   fmt::format("{}: a track has no such setting", printable(member.name)))
          .with("field", member.name);
    }
  }
  NIMBUS_CHECK(checkRetention(settings.retention, "eviction_batch_size"));
  return settings;
}

store::Query clockQuery(const std::string& track) {
  return store::query::GetRecord{kTrackClockSpace, track};
}

std::string dueKey(const LogName& log, Timestamp due) {
  return tracksDueAt(due) + log.session.partition().name() + ':' + log.track;
}

std::string dueText(const LogName& log) {
  std::string text = "[";
  for (const std::string* part : {&log.session.app, &log.session.user, &log.session.id}) {
    appendJsonString(text, *part);
    text += ',';
  }
  appendJsonString(text, log.track);
  text += ']';
  return text;
}

std::optional<LogName> logOf(std::string_view text) {
  const auto parsed = parseJson(text);
  if (!parsed) return std::nullopt;
  std::vector<std::string> parts;
  for (const JsonValue& part : parsed->elements()) parts.emplace_back(part.string().value_or(""));
  if (parts.size() != 4) return std::nullopt;
  return LogName{{parts[0], parts[1], parts[2]}, parts[3]};
}

void putTrack(store::Batch& batch, const std::string& track, const TrackSettings& settings,
              std::optional<store::Version> expected) {
  store::op::Put put;
  put.space = kTrackSpace;
  put.key = track;
  put.value = settingsText(settings);
  put.expected = expected;
  batch.conditions.emplace_back(store::require::SpaceWithin{kTrackSpace, kMaxTracks, 0});
  batch.operations.emplace_back(std::move(put));
}

// The clock, begun anew; listed when nobody has done so yet.
void putClock(store::Batch& batch, const LogName& log, const std::optional<Millis>& ttl,
              Timestamp now, bool is_listed) {
  if (!ttl) return;
  store::op::Put put;
  put.space = kTrackClockSpace;
  put.key = log.track;
  put.value = std::to_string(now.time_since_epoch().count());
  put.expiry.at = now + *ttl;
  batch.operations.emplace_back(std::move(put));
  if (!is_listed)
    batch.listings.push_back({kTrackDirectory, dueKey(log, now + *ttl), dueText(log)});
}

}  // namespace

std::string tracksDueAt(Timestamp time) {
  return fmt::format("{:016x}", time.time_since_epoch().count());
}

Task<Result<OpenedLog>> openLog(store::Store& store, LogName log,
                                std::vector<store::Query> queries) {
  OpenedLog found;
  if (log.track.empty()) {
    NIMBUS_CO_TRY(found.opened, co_await openSession(store, log.session, std::move(queries)));
    co_return found;
  }
  const std::size_t asked = queries.size();
  queries.emplace_back(store::query::GetRecord{kTrackSpace, log.track});
  queries.emplace_back(clockQuery(log.track));
  NIMBUS_CO_TRY(found.opened, co_await openSession(store, log.session, std::move(queries)));
  found.track = found.opened.get<std::optional<store::Record>>(asked);
  if (found.track) {
    NIMBUS_CO_TRY(found.settings, parseSettings(found.track->value, TrackSettings()));
  }
  const auto& clock = found.opened.get<std::optional<store::Record>>(asked + 1);
  if (clock) found.clock = clock->version;
  found.has_expired = found.settings.ttl && !clock;
  found.opened.answers.resize(asked);
  co_return found;
}

void addTrack(store::Batch& batch, const std::string& track) {
  // Not by an expected version: a condition tells the commit's caller that it was overtaken.
  batch.conditions.emplace_back(store::require::RecordVersion{kTrackSpace, track, 0});
  putTrack(batch, track, TrackSettings(), std::nullopt);
}

void addTrackClock(store::Batch& batch, const LogName& log, const OpenedLog& opened,
                   Timestamp now) {
  if (!opened.settings.ttl) return;
  // What had not expired when it was looked at must not have until the commit; what had is removed,
  // and nothing that others append meanwhile.
  batch.conditions.emplace_back(
      store::require::RecordVersion{kTrackClockSpace, log.track, opened.clock});
  putClock(batch, log, opened.settings.ttl, now, !opened.has_expired);
  if (!opened.has_expired) return;
  batch.operations.emplace_back(store::op::RemoveRange{log.log(), 1, UINT64_MAX});
}

Task<Result<std::vector<Track>>> listTracks(store::Store& store, SessionName session) {
  std::vector<store::Query> queries;
  store::query::ScanRecords scan;
  scan.space = kTrackSpace;
  scan.limit = kMaxTracks;
  queries.emplace_back(std::move(scan));
  NIMBUS_CO_TRY(const Opened opened, co_await openSession(store, session, std::move(queries)));
  std::vector<Track> tracks;
  std::vector<store::Query> queries_of_tracks;
  for (const store::Record& record : opened.get<store::RecordPage>(0).items) {
    Track track;
    track.name = record.key;
    NIMBUS_CO_TRY(track.settings, parseSettings(record.value, TrackSettings()));
    queries_of_tracks.emplace_back(store::query::GetLogInfo{LogName{session, track.name}.log()});
    queries_of_tracks.emplace_back(clockQuery(track.name));
    tracks.push_back(std::move(track));
  }
  if (tracks.empty()) co_return tracks;
  NIMBUS_CO_TRY(const auto answers,
                co_await store.read(session.partition(), std::move(queries_of_tracks)));
  for (std::size_t i = 0; i < tracks.size(); ++i) {
    tracks[i].info = std::get<store::LogInfo>(answers[2 * i]);
    const auto& clock = std::get<std::optional<store::Record>>(answers[2 * i + 1]);
    if (tracks[i].settings.ttl && !clock) tracks[i].info.entries = 0;
  }
  co_return tracks;
}

Task<Result<Track>> showTrack(store::Store& store, LogName track) {
  NIMBUS_CO_TRY(std::vector<Track> tracks, co_await listTracks(store, track.session));
  for (Track& found : tracks) {
    if (found.name == track.track) co_return std::move(found);
  }
  co_return noTrack(track.track);
}

Task<Result<Track>> changeTrack(store::Store& store, Turns& turns, LogName track,
                                std::string json) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns.take(track.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, track.session.app));
  NIMBUS_CO_TRY(const OpenedLog found, co_await openLog(store, track, std::vector<store::Query>()));
  NIMBUS_CO_TRY(const TrackSettings wanted, parseSettings(json, found.settings));
  const Timestamp now = turns.stamp(store.now(), found.opened.session.updated_at);
  store::Batch batch = changeOf(found.opened.session, settings, now);
  putTrack(batch, track.track, wanted, found.track ? found.track->version : 0);
  // What has expired under the settings as they were stays gone under new ones.
  if (found.has_expired) {
    batch.operations.emplace_back(store::op::RemoveRange{track.log(), 1, UINT64_MAX});
  }
  const bool is_listed = found.settings.ttl == wanted.ttl && !found.has_expired;
  putClock(batch, track, wanted.ttl, now, is_listed);
  auto pending = store.commit(track.session.partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return co_await showTrack(store, std::move(track));
}

Task<Result<>> removeTrack(store::Store& store, Turns& turns, LogName track) {
  NIMBUS_CO_TRY(const Turns::Turn turn, co_await turns.take(track.session.partition().name()));
  NIMBUS_CO_TRY(const AppSettings settings, co_await readSettings(store, track.session.app));
  NIMBUS_CO_TRY(const OpenedLog found, co_await openLog(store, track, std::vector<store::Query>()));
  if (!found.track) co_return noTrack(track.track);
  const Timestamp now = turns.stamp(store.now(), found.opened.session.updated_at);
  store::Batch batch = changeOf(found.opened.session, settings, now);
  for (const char* space : {kTrackSpace, kTrackClockSpace}) {
    store::op::Erase erase;
    erase.space = space;
    erase.key = track.track;
    batch.operations.emplace_back(std::move(erase));
  }
  batch.operations.emplace_back(store::op::DropLog{track.log()});
  auto pending = store.commit(track.session.partition(), std::nullopt, std::move(batch));
  NIMBUS_CO_CHECK(co_await pending.done());
  co_return Result<>();
}

Task<Result<>> sweepTrack(store::Store& store, store::DirectoryEntry entry) {
  store::Batch batch;
  batch.listings.push_back({kTrackDirectory, entry.key, std::nullopt});
  const auto log = logOf(entry.value);
  if (!log) {
    auto pending = store.commit(appPartition("-"), std::nullopt, std::move(batch));
    NIMBUS_CO_CHECK(co_await pending.done());
    co_return Result<>();
  }
  std::vector<store::Query> queries;
  queries.emplace_back(store::query::GetRecord{kTrackSpace, log->track});
  queries.emplace_back(clockQuery(log->track));
  NIMBUS_CO_TRY(const auto answers,
                co_await store.read(log->session.partition(), std::move(queries)));
  const auto& track = std::get<std::optional<store::Record>>(answers[0]);
  const auto& clock = std::get<std::optional<store::Record>>(answers[1]);
  TrackSettings settings;
  if (track) {
    NIMBUS_CO_TRY(settings, parseSettings(track->value, TrackSettings()));
  }
  if (clock && clock->expires_at) {
    const std::string next = dueKey(*log, *clock->expires_at);
    if (next == entry.key) co_return Result<>();
    batch.listings.push_back({kTrackDirectory, next, entry.value});
  } else if (settings.ttl) {
    // Whoever appends meanwhile begins the clock anew.
    batch.conditions.emplace_back(
        store::require::RecordVersion{kTrackSpace, log->track, track->version});
    batch.conditions.emplace_back(store::require::RecordVersion{kTrackClockSpace, log->track, 0});
    batch.operations.emplace_back(store::op::RemoveRange{log->log(), 1, UINT64_MAX});
  }
  auto pending = store.commit(log->session.partition(), std::nullopt, std::move(batch));
  const auto done = co_await pending.done();
  if (!done && !isOvertaken(done.error())) co_return done.error();
  co_return Result<>();
}

std::string trackText(const Track& track) {
  std::string text = R"({"name":)";
  appendJsonString(text, track.name);
  fmt::format_to(std::back_inserter(text),
                 R"(,"event_count":{},"last_seq":{},"max_events":{},"eviction_batch_size":{},)"
                 R"("ttl":{}}})",
                 track.info.entries, track.info.last_seq, track.settings.retention.max_events,
                 track.settings.retention.batch, secondsOf(track.settings.ttl));
  return text;
}

}  // namespace nimbus::events
