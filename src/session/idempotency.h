#pragma once
// Answers that are given again to whoever asks again: a call with an idempotency key.
//
// The answer is committed with the effect of its call, beside the state of the session, so that
// there is never one without the other, and a call that a crash has cut off may run again. That a
// call with a key is under way is known in memory only. A directory tells where the answer to a key
// lies, because a key is not bound to a session.

#include "base/result.h"
#include "session/call.h"
#include "session/invocation_record.h"
#include "store/store.h"

#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

namespace nimbus::session {

// `name` stands for who asks, the function and the key; `fingerprint` for all that was asked.
struct Idempotency {
  std::string name;
  std::string fingerprint;
};

struct StoredAnswer {
  std::string fingerprint;
  std::string request_id;
  std::optional<std::string> session_key;
  std::string node;
  bool is_accepted = false;  // of an asynchronous call: that it was taken
  Outcome outcome;

  std::string toJson() const;
  static Result<StoredAnswer> fromJson(std::string_view json);
};

inline constexpr const char* kIdempotencySpace = "idempotency";
inline constexpr const char* kIdempotencyDirectory = "idempotency-keys";

// Whether an answer says something of the call, and not only of the platform at that time.
bool isToBeStored(const Outcome& outcome);

// Keeps the answer to a call that has a session, or is asynchronous.
class AnswerJournal final : public CallJournal {
 public:
  struct Options {
    Idempotency idempotency;
    std::string node;
    bool is_accepted = false;
    Millis keep{};
  };
  // `store` must outlive it.
  AnswerJournal(Options options, store::Store& store)
      : options_(std::move(options)), store_(store) {}

  void addTo(store::Batch& batch, const Call& call) override;

 private:
  const Options options_;
  store::Store& store_;
};

// The keys whose calls are under way. Any thread may use any member.
class KeysInUse {
 public:
  // Conflict if it is in use, Unprocessable if it is for something else.
  Result<> take(const Idempotency& idempotency);
  void release(const std::string& name);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::string> fingerprints_;  // by name; guarded by mutex_
};

// That the key was used for something else.
Error otherRequest();

}  // namespace nimbus::session
