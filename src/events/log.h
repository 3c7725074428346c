#pragma once
// A log of events: the session's own, or that of a track.
//
// Every change is one commit together with the session's clock and its place in the lists; what it
// depends on is a condition of that commit. What an append, a page, a lookup and a trim cost does
// not depend on how long the log is.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/event.h"
#include "events/known_sessions.h"
#include "events/names.h"
#include "events/open_session.h"
#include "events/settings_reader.h"
#include "events/turns.h"
#include "store/store.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::events {

class Appending;

struct AppendOptions {
  // Append only if this is the seq of the newest event that was ever appended.
  std::optional<store::Seq> expected_seq;
  // Append only to the session of this generation.
  std::optional<std::uint64_t> generation;
};

struct AppendAnswer {
  struct Item {
    std::string id;
    store::Seq seq = 0;
    store::Version version = 0;
  };
  std::vector<Item> items;
  Timestamp session_updated_at;
  std::uint64_t evicted = 0;
  bool was_known = false;  // nothing was appended: all had been before
};

struct ListQuery {
  std::size_t limit = 100;
  store::Order order = store::Order::Ascending;
  std::optional<store::Seq> after;                                 // where the page before ended
  std::array<std::optional<std::string>, kIndexes.size()> fields;  // as kIndexes
  std::optional<Timestamp> since;                                  // both included
  std::optional<Timestamp> until;
  std::optional<std::uint64_t> offset;
  std::optional<std::string> around;  // an event's id

  bool isFiltered() const;
};

struct EventPage {
  std::vector<store::Entry> entries;
  std::optional<store::Seq> next;  // absent: this is the last page
};

// Any thread.
class Log {
 public:
  // Everything must outlive it.
  Log(store::Store& store, Random& random, Turns& turns)
      : store_(store), random_(random), turns_(turns), settings_(store) {}

  // All or nothing. An event whose id is there already with the same body is answered as the first
  // time; with another body: Conflict. Errors: NotFound (no session), VersionConflict
  // (expected_seq, field `last_seq`; generation), QuotaExceeded (state, tracks).
  Task<Result<AppendAnswer>> append(LogName log, std::vector<NewEvent> events,
                                    AppendOptions options);

  // NotFound if there is no such session or event. `expected`: the version it must have, else
  // VersionConflict.
  Task<Result<store::Entry>> get(LogName log, std::string id);
  Task<Result<AppendAnswer>> replace(LogName log, std::string id, NewEvent event,
                                     std::optional<store::Version> expected);
  Task<Result<>> remove(LogName log, std::string id, std::optional<store::Version> expected);

  Task<Result<EventPage>> list(LogName log, ListQuery query);
  // The newest `count` events behind `after`, in order, and whether there are more.
  Task<Result<store::EntryPage>> newest(LogName log, std::size_t count, store::Seq after);

  // Removes the newest conversations and returns what they were, oldest event first.
  Task<Result<std::vector<store::Entry>>> trim(LogName log, std::size_t conversations);

  // Removes every event behind one of them; returns how many. NotFound if the event, or a seq as
  // high, never was.
  struct RewindTo {
    std::optional<std::string> event;
    std::optional<store::Seq> seq;
  };
  Task<Result<std::uint64_t>> rewind(LogName log, RewindTo to);

 private:
  Task<Result<std::optional<AppendAnswer>>> tryAppend(Appending& appending,
                                                      const AppSettings& settings);
  Task<Result<std::optional<AppendAnswer>>> tryAppendUnseen(Appending& appending,
                                                            const AppSettings& settings);

  store::Store& store_;
  Random& random_;
  Turns& turns_;
  SettingsReader settings_;
  KnownSessions known_;
};

}  // namespace nimbus::events
