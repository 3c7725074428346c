#pragma once
// A session as it was found, and what every change of it has in common.

#include "base/clock.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/app_settings.h"
#include "events/names.h"
#include "store/store.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::events {

struct Session {
  SessionName name;
  std::string title;  // empty: none
  Timestamp created_at;
  Timestamp updated_at;
  store::Version clock = 0;      // of its clock, which every change writes
  std::uint64_t generation = 0;  // another one after the session was deleted and made again
  std::uint64_t event_count = 0;
  std::uint64_t last_seq = 0;
  std::uint64_t evicted_count = 0;
};

// A session and the answers to what else was asked, from one snapshot.
struct Opened {
  Session session;
  std::vector<store::Answer> answers;

  template <typename T>
  const T& get(std::size_t query) const {
    return std::get<T>(answers.at(query));
  }
};

Error noSession(const SessionName& name);

// NotFound if there is no such session, or it has expired.
Task<Result<Opened>> openSession(store::Store& store, SessionName name,
                                 std::vector<store::Query> queries);
Task<Result<std::optional<Session>>> findSession(store::Store& store, SessionName name);

// Makes a session: its record, whose version is the generation.
store::op::Put identityPut(const Session& session);
store::op::Put identityPut(const SessionName& name, Timestamp now, Random& random);
std::uint64_t newGeneration(Timestamp now, Random& random);
// When the clock of a session that is changed now runs out.
store::Expiry clockExpiry(const AppSettings& settings, Timestamp now);
store::op::Put clockPut(const AppSettings& settings, Timestamp now);

// Adds to the number of events that eviction has removed.
store::op::Add countEvicted(std::uint64_t count);

// A change of the session: that it is still the one that was opened, that it changed now, and that
// the lists say so. What else is done is added.
store::Batch changeOf(const Session& session, const AppSettings& settings, Timestamp now);

// Whether a commit was refused because the session was deleted meanwhile: look again.
bool isGone(const Error& refused);
// Whether it was refused because the log has changed meanwhile, or another condition fell.
bool isOvertaken(const Error& refused);

Error tooContended();
// How often a change is tried that other processes overtake.
inline constexpr int kAttempts = 50;

}  // namespace nimbus::events
