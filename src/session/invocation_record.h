#pragma once
// What the store keeps of an asynchronous call: beside the state of its session, so that what
// becomes of the call and what it wrote are one commit.
//
//   queue  `calls`       what is to be run, in the order of the session; later and given up ones
//   too space  `invocation`  by request id: what is known of each call, for a day after its end
//   directories          where a call lies, by its request id; which sessions have work; what is
//   due

#include "base/clock.h"
#include "base/result.h"
#include "session/call.h"
#include "store/batch.h"
#include "store/partition.h"
#include "store/types.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::session {

struct InvocationRecord {
  // Running is known to who runs it, and never stored.
  enum class Status : std::uint8_t {
    Queued,
    Running,
    Retrying,
    Succeeded,
    Failed,
    Cancelled,
    Parked
  };

  std::string function_id;
  std::optional<std::string> session_key;  // absent: stateless
  Status status = Status::Queued;
  std::uint32_t attempts = 0;  // that were begun and came to an end
  std::uint64_t seq = 0;       // 0: it has none, or none yet
  Timestamp created_at;
  std::optional<Timestamp> due_at;  // of one that was delayed
  std::optional<Timestamp> started_at;
  std::optional<Timestamp> finished_at;
  // How the last attempt ended.
  int status_code = 0;  // that the function chose; 0: it has not returned
  std::string body;     // JSON; empty: none
  std::string error;    // JSON object, with the `code`; empty: none
  std::string instance;

  // Nothing more becomes of it by itself.
  bool isOver() const;

  // Takes over how an attempt ended.
  void note(const Outcome& outcome);

  std::string toJson() const;
  static Result<InvocationRecord> fromJson(std::string_view json);

  bool operator==(const InvocationRecord&) const = default;
};

std::string_view statusName(InvocationRecord::Status status);
std::optional<InvocationRecord::Status> statusNamed(std::string_view name);

// What the function needs of a call that waits: the payload of its item in the queue.
struct QueuedRequest {
  std::string payload;
  std::string traceparent;
  Millis timeout{};
  int priority = 5;

  std::string toJson() const;
  static Result<QueuedRequest> fromJson(std::string_view json);

  bool operator==(const QueuedRequest&) const = default;
};

inline constexpr const char* kCallQueue = "calls";
inline constexpr const char* kInvocationSpace = "invocation";

// Stateless calls have no session to wait in. They wait in one of so many lanes of their function,
// which run beside each other; a lane's key can be no session's.
inline constexpr unsigned kLanes = 16;
std::string laneKey(unsigned lane);
std::string laneOf(std::string_view request_id);
bool isLane(std::string_view session_key);

// Of a session or a lane.
store::Partition linePartition(std::string_view function_id, std::string_view session_key);

// Where calls lie whose session is gone.
store::Partition goneInvocations(std::string_view function_id);

// A function, and a session or lane of it; as directories tell it.
struct LineName {
  std::string function_id;
  std::string key;

  std::string toJson() const;
  static Result<LineName> fromJson(std::string_view json);

  bool operator==(const LineName&) const = default;
};

// By request id.
inline constexpr const char* kInvocationDirectory = "invocations";
// Lines that may have something to run or to send, and sessions that are paused or drained.
inline constexpr const char* kWorkDirectory = "lines-with-work";
// By the time at which calls are due, and their request id.
inline constexpr const char* kDueDirectory = "calls-due";

store::Listing listInvocation(std::string request_id, const LineName& line);
store::Listing listWork(const LineName& line);
store::Listing unlistWork(const LineName& line);
store::Listing listDue(Timestamp due_at, std::string_view request_id, const LineName& line);
store::Listing unlistDue(Timestamp due_at, std::string_view request_id);
// Of a key of that directory.
struct Due {
  Timestamp at;
  std::string request_id;
};
std::optional<Due> readDue(std::string_view key);

// Puts the record; `expires_at` absent: it stays.
store::op::Put putInvocation(std::string request_id, const InvocationRecord& record,
                             std::optional<Timestamp> expires_at);

}  // namespace nimbus::session
