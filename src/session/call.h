#pragma once
// One call on its way through the server.

#include "base/clock.h"
#include "base/one_shot.h"
#include "base/result.h"
#include "base/steady_clock.h"
#include "session/function_spec.h"
#include "state/operation.h"
#include "store/batch.h"

#include <boost/smart_ptr/intrusive_ptr.hpp>
#include <boost/smart_ptr/intrusive_ref_counter.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nimbus::session {

// What a function says when it raises.
struct FunctionFailure {
  std::string type;
  std::string message;
  std::string trace;
};

// How a call ended.
struct Outcome {
  // Set if the call was not carried out, or not to its end; FunctionError with `failure`.
  std::optional<Error> error = {};
  std::optional<FunctionFailure> failure = {};
  int status_code = 200;
  std::string body = {};                 // JSON
  state::Answer answer = {};             // of an operation
  std::uint64_t seq = 0;                 // 0: it has no place in the order of a session
  std::string instance = {};             // empty: none ran it
  std::chrono::microseconds duration{};  // from the instance's start on it to its end
};

// An asynchronous call that a function asks for.
struct SentCall {
  std::string function_id;
  std::optional<std::string> session_key;  // absent: stateless
  std::string payload;                     // JSON
  Millis delay{};
};

struct Call;

// What is to become durable with the end of a call: in one commit with what it wrote.
class CallJournal {
 public:
  virtual ~CallJournal() = default;
  // Adds it to the batch. How the call ended is known.
  virtual void addTo(store::Batch& batch, const Call& call) = 0;
};

// Of ten steps, 9 the first: between sessions, never inside one.
inline constexpr int kUsualPriority = 5;

struct Call : boost::intrusive_ref_counter<Call> {
  FunctionPtr function;
  std::string request_id;
  std::optional<std::string> session_key;  // absent: stateless
  std::string payload;                     // JSON
  std::string traceparent;
  Millis timeout{30'000};
  SteadyTime accepted_at;
  bool only_if_idle = false;  // refuse it if its session is busy
  // Instead of a run of the function: one operation on the session's state, in its order.
  std::optional<state::Operation> operation;
  int priority = kUsualPriority;
  std::unique_ptr<CallJournal> journal;  // null: nothing but what it writes is to be durable

  // Of asynchronous calls, and of those that had to wait for one; see queued_calls.h.
  std::uint32_t attempt = 1;
  bool is_driven = false;        // its turn has come, and its number is in `outcome`
  bool has_begun = false;        // of one that is driven: it went on to an instance
  bool is_cancelled = false;     // whatever it answers
  bool may_be_repeated = false;  // its request id tells whether it was taken before

  std::vector<SentCall> sent;  // leaves with what it wrote; see outbox.h

  // Whoever sets it first sees to the outcome: its run, or who gives it up before that.
  std::atomic<bool> claimed = false;
  // Whoever has claimed the call writes it, until the call is settled.
  Outcome outcome;
  // The answer may leave: everything it depends on is durable, or known not to be.
  OneShotEvent settled;

  bool claim() { return !claimed.exchange(true, std::memory_order_acq_rel); }
  void settle() { settled.set(); }
  void fail(Error why) {
    outcome.error = std::move(why);
    settle();
  }
};

using CallPtr = boost::intrusive_ptr<Call>;

}  // namespace nimbus::session
