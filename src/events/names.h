#pragma once
// How the parts of an event log are called in the store.
//
// A session's log lies in the session's own partition. With the user "_" that is the partition of a
// function's session (app = function id), so that a call and the events it appends commit together.
//
//   space events          "session"  what was fixed when the session was made; its version is the
//                                    session's generation
//                         "clock"    when the session was last changed, in ms; expires with it
//                         "evicted"  how many events eviction removed
//   space events-state    the session's state, a record per key
//   space events-tracks   a record per track: its settings
//   space events-track-clocks  when a track with a ttl was last appended to, in ms; expires with
//                              what the track holds
//   space events-summary  a record per filter key
//   space events-intents  changes of app and user state that are still to be carried out
//   log   events          the events; log track:<name> those of a track

#include "base/clock.h"
#include "store/batch.h"
#include "store/partition.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::events {

// The user of a function's sessions.
inline constexpr std::string_view kFunctionUser = "_";

struct SessionName {
  std::string app;
  std::string user;
  std::string id;

  store::Partition partition() const;
  // Whose it is, as far as keys with a prefix are concerned: the user's; of a function's sessions
  // each is its own.
  const std::string& owner() const;

  bool operator==(const SessionName&) const = default;
};

// A log of a session: its events, or those of one of its tracks.
struct LogName {
  SessionName session;
  std::string track;  // empty: the session's events

  std::string log() const { return track.empty() ? "events" : "track:" + track; }
};

inline constexpr const char* kSpace = "events";
inline constexpr const char* kIdentity = "session";
inline constexpr const char* kClock = "clock";
inline constexpr const char* kEvicted = "evicted";
inline constexpr const char* kStateSpace = "events-state";
inline constexpr const char* kTrackSpace = "events-tracks";
inline constexpr const char* kTrackClockSpace = "events-track-clocks";
inline constexpr const char* kSummarySpace = "events-summary";
inline constexpr const char* kIntentSpace = "events-intents";
inline constexpr const char* kEventLog = "events";

// Where the state of an app and of a user of it lies: in space kStateSpace.
store::Partition appPartition(std::string_view app);
store::Partition userPartition(std::string_view app, std::string_view user);

// Directories. Sessions are listed under keys that begin with the time of their last change, the
// newest first: who changes a session moves its entries.
std::string sessionDirectory(std::string_view app);
std::string sessionDirectory(std::string_view app, std::string_view user);
inline constexpr const char* kAppDirectory = "event-apps";
inline constexpr const char* kIntentDirectory = "event-intents";
// Tracks with a ttl, by when their events may have expired.
inline constexpr const char* kTrackDirectory = "event-tracks";

// Sessions last changed at `time` and before come after this key.
std::string listedAt(Timestamp time);
std::string listingKey(const SessionName& session, Timestamp updated_at);
// The value of a directory's entry: whom it is about.
std::string nameText(const SessionName& session);
std::optional<SessionName> nameOf(std::string_view app, std::string_view text);

// Moves a session's entries from one time to another. `from` absent: it is new; `to`: it goes.
std::vector<store::Listing> moved(const SessionName& session, std::optional<Timestamp> from,
                                  std::optional<Timestamp> to);

}  // namespace nimbus::events
