#pragma once
// An append under way: what is asked, what was found, and the commit that follows from both.

#include "base/random.h"
#include "base/result.h"
#include "events/conversations.h"
#include "events/event.h"
#include "events/log.h"
#include "events/open_session.h"
#include "events/shared_state.h"
#include "events/tracks.h"
#include "store/store.h"

#include <optional>
#include <string>
#include <vector>

namespace nimbus::events {

// Through all attempts of one append. Each begins with look().
class Appending {
 public:
  Appending(LogName log, std::vector<NewEvent> events, AppendOptions options, Random& random);

  const LogName& log() const { return log_; }
  // Whether it changes the state of the app or user.
  bool isShared() const;
  // What must be read first, together with the session.
  std::vector<store::Query> queries() const;
  // The changes of shared state that somebody left undone, of what was read.
  static Result<std::vector<Intent>> leftIntents(const OpenedLog& found);

  // Takes in what was read. The answer, if nothing is to be appended because all is there already.
  // Errors: Conflict (an id is another event's), VersionConflict (what was expected is not so).
  Result<std::optional<AppendAnswer>> look(const OpenedLog& found, const AppSettings& settings);

  // Whether it depends on nothing but what is known of a session that nobody else has changed. Then
  // assume() does for look(), if the commit requires that nobody has. Errors: VersionConflict.
  bool needsNoLook(const AppSettings& settings) const;
  Result<> assume(const Session& session);
  // The session as the commit left it.
  Session sessionAfter(const store::Applied& applied) const;

  // What look() left to do.
  const std::vector<NewEvent>& unknown() const { return unknown_; }
  const store::LogInfo& info() const { return info_; }
  // Whether there may be something to be evicted.
  bool hasToMakeRoom() const { return !found_.has_expired; }
  const Retention& retention() const { return retention_; }
  const StateDelta& delta() const { return delta_; }

  // The commit, which makes room by `evicted`. `changed_at` is when the session was changed then.
  store::Batch batch(const AppSettings& settings, Timestamp now, Timestamp changed_at,
                     Removal evicted);
  // The change of shared state that the commit leaves to be done.
  const std::optional<Intent>& intent() const { return intent_; }
  AppendAnswer answer(const store::Applied& applied) const;

 private:
  Result<> sort(const OpenedLog& found);
  Result<> checkExpected(const Session& session) const;
  bool hasGivenId() const;
  void addConditions(store::Batch& batch) const;
  void addEviction(store::Batch& batch, Removal evicted);
  void addEvents(store::Batch& batch, const AppSettings& settings);

  const LogName log_;
  std::vector<NewEvent> events_;
  std::vector<bool> has_given_id_;  // of events_
  const AppendOptions options_;
  Random& random_;

  // Of one attempt:
  store::LogInfo info_;
  Retention retention_;
  OpenedLog found_;                  // without the answers
  std::vector<store::Entry> known_;  // in the order of events_
  std::vector<NewEvent> unknown_;    // too
  StateDelta delta_;                 // of the unknown
  std::optional<Intent> intent_;
  Timestamp now_;
  Timestamp changed_at_;
  std::uint64_t evicted_ = 0;
  std::size_t first_append_ = 0;  // among the operations
};

}  // namespace nimbus::events
