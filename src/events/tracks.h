#pragma once
// Tracks: further logs of a session, made by the first event appended to them, each with its own
// retention.
//
// What a track with a ttl holds is gone when nothing was appended for so long. A clock, a record
// that expires, says whether it is; what is gone is removed by the next append, or by upkeep.h,
// which finds such tracks by a directory.

#include "base/result.h"
#include "base/task.h"
#include "events/app_settings.h"
#include "events/names.h"
#include "events/open_session.h"
#include "events/turns.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

inline constexpr std::uint64_t kMaxTracks = 100;

struct TrackSettings {
  Retention retention;
  std::optional<Millis> ttl;
};

struct Track {
  std::string name;
  TrackSettings settings;
  store::LogInfo info;
};

// A log as it was found: the session's own, or that of a track, which may not be there yet.
struct OpenedLog {
  Opened opened;  // with the answers to the caller's queries
  std::optional<store::Record> track;
  TrackSettings settings;    // of the track
  store::Version clock = 0;  // of its clock; 0: there is none
  bool has_expired = false;  // whatever is found of it does not count
};
// NotFound if there is no such session.
Task<Result<OpenedLog>> openLog(store::Store& store, LogName log,
                                std::vector<store::Query> queries);

// Makes the track with the commit; the commit is overtaken if somebody else does.
void addTrack(store::Batch& batch, const std::string& track);
// What an append to a track at `now` needs besides the entries, which follow it: its clock, and
// that what has expired goes first.
void addTrackClock(store::Batch& batch, const LogName& log, const OpenedLog& opened, Timestamp now);

// By name. NotFound if there is no such session.
Task<Result<std::vector<Track>>> listTracks(store::Store& store, SessionName session);
Task<Result<Track>> showTrack(store::Store& store, LogName track);
// {"max_events", "eviction_batch_size", "ttl"}; makes the track if there is none.
Task<Result<Track>> changeTrack(store::Store& store, Turns& turns, LogName track, std::string json);
Task<Result<>> removeTrack(store::Store& store, Turns& turns, LogName track);

// What an entry of kTrackDirectory says: removes what has expired of that track, or lists it
// again.
Task<Result<>> sweepTrack(store::Store& store, store::DirectoryEntry entry);
// Tracks that are due before come before this key.
std::string tracksDueAt(Timestamp time);

std::string trackText(const Track& track);

}  // namespace nimbus::events
