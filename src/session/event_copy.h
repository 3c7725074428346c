#pragma once
// The event log of a session as it is carried from one server to another: events, tracks, state,
// summaries. Where it is imported events are numbered anew, without gaps, as in a fork; their ids
// stay, and what they are repetitions of.

#include "base/clock.h"
#include "base/json.h"
#include "base/random.h"
#include "base/result.h"
#include "base/task.h"
#include "events/names.h"
#include "store/batch.h"
#include "store/store.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::session {

struct EventCopy {
  struct Event {
    std::string id;
    store::Seq seq = 0;       // where it stood
    std::string event;        // as it is stored
    std::string fingerprint;  // bytes

    bool operator==(const Event&) const = default;
  };
  struct Member {
    std::string key;
    std::string value;  // JSON

    bool operator==(const Member&) const = default;
  };
  struct Track {
    std::string name;
    std::string settings;  // JSON
    std::vector<Event> events;

    bool operator==(const Track&) const = default;
  };

  std::string title;
  Timestamp created_at;
  std::uint64_t evicted = 0;
  std::vector<Event> events;
  std::vector<Track> tracks;
  std::vector<Member> state;
  std::vector<Member> summaries;

  // Tells every part of it, in order: what a checksum is made of.
  void visit(const std::function<void(std::string_view part)>& add) const;
  void appendTo(std::string& json) const;
  // InvalidArgument if it is none. Nothing of what it holds has been parsed: see check().
  static Result<EventCopy> fromJson(const JsonValue& root);
  Result<> check() const;

  bool operator==(const EventCopy&) const = default;
};

// So much of one session can be carried: of all texts in it.
inline constexpr std::size_t kMostCarried = 32UL * 1024 * 1024;

// Nothing if there is no such log. `room`: how many bytes it may have; TooLarge if it has more.
Task<Result<std::optional<EventCopy>>> copyEvents(store::Store& store, events::SessionName name,
                                                  std::size_t room);

// An import of a log. It is long, so it is done in steps, and the log is none before the last one,
// which is the caller's commit; the lease keeps two imports into one name apart.
class EventImport {
 public:
  // The store must outlive it.
  EventImport(store::Store& store, events::SessionName name, EventCopy copy)
      : store_(store), name_(std::move(name)), copy_(std::move(copy)) {}

  // All but the last step. Conflict if there is such a log.
  Task<Result<>> begin(std::uint64_t nonce);
  // Adds the last step to a commit in the log's partition, which needs fence().
  void addTo(store::Batch& batch, Random& random, Timestamp now) const;
  const std::optional<store::Fence>& fence() const { return fence_; }
  // What was begun is not gone on with.
  Task<> giveUp();

 private:
  // The events of that track, or the session's own.
  Task<Result<>> append(std::optional<std::size_t> track, std::vector<std::string> indexes);

  store::Store& store_;
  const events::SessionName name_;
  const EventCopy copy_;
  std::optional<store::Fence> fence_;
  std::optional<Millis> session_ttl_;
};

}  // namespace nimbus::session
