#pragma once
// What a function is: how it runs, what it may use, how its state is kept. Everything but the code.
//
// An author says some of it and leaves the rest to the defaults, and a definition remembers which:
// what was never said follows the server's defaults when these change, and the runtime's when the
// runtime does.

#include "base/clock.h"
#include "base/ids.h"
#include "base/json.h"
#include "base/result.h"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace nimbus::function {

enum class Runtime : std::uint8_t { Python, Node, Native, Exec };
enum class Isolation : std::uint8_t { Process, Sandbox, Microvm };
enum class OnFull : std::uint8_t { Reject, Block };
enum class OnPoison : std::uint8_t { Park, Pause };
enum class OnError : std::uint8_t { Rollback, Keep };

// The name in JSON, such as "python".
std::string_view runtimeName(Runtime runtime);

// Of asynchronous calls.
struct Retry {
  std::uint32_t max_attempts = 3;
  Millis initial{1'000};  // before the second attempt
  double factor = 2;      // by which each wait is longer than the one before
  Millis max{300'000};    // longest wait

  bool operator==(const Retry&) const = default;
};

struct Queue {
  std::uint64_t max_per_session = 1'000;  // waiting calls; 0 = no limit
  OnFull on_full = OnFull::Reject;

  bool operator==(const Queue&) const = default;
};

struct StateConfig {
  bool enabled = true;
  Millis default_ttl{3'600'000};          // 0 = values do not expire
  std::uint64_t max_state_size = 65'536;  // bytes of one value; 0 = no limit
  std::uint64_t max_keys = 100;           // of one session; 0 = no limit
  std::uint64_t max_total_size = 0;       // bytes of all values of one session; 0 = no limit
  bool session_affinity = true;
  Millis session_timeout{3'600'000};  // 0 = sessions do not end
  OnError on_error = OnError::Rollback;

  bool operator==(const StateConfig&) const = default;
};

// What the server says for functions that say nothing, and what it lets none say.
struct Defaults {
  StateConfig state;
  Isolation isolation = Isolation::Process;
  std::string no_sandbox;  // why there can be none here; empty: there can
  bool may_use_network = false;
};

struct Definition {
  explicit Definition(FunctionId its_id) : id(std::move(its_id)) {}

  FunctionId id;
  Runtime runtime = Runtime::Python;
  std::string handler;  // "file.symbol"; the file of exec, and of native if it is a program
  std::map<std::string, std::string, std::less<>> env;
  Millis timeout{30'000};
  std::uint32_t memory_mb = 256;  // 0 = no limit
  std::uint32_t min_instances = 0;
  std::uint32_t max_instances = 4;
  std::uint32_t concurrency = 1;  // calls that one instance runs at once
  Isolation isolation = Isolation::Process;
  bool network = false;  // in a sandbox; elsewhere there is one anyway
  Retry retry;
  Queue queue;
  OnPoison on_poison = OnPoison::Park;
  StateConfig state;

  // Which of the above the author said, by their names in JSON: "timeout_ms", "retry.factor". The
  // others hold defaults.
  std::set<std::string, std::less<>> given;

  // What the Catalog keeps.
  std::uint64_t version = 0;  // of code, runtime and handler; the first is 1
  std::string code_hash;      // Bundle::hash() of that version
  Timestamp created_at;
  Timestamp updated_at;

  bool operator==(const Definition&) const = default;
};

// What a body of `PUT /api/v1/functions/{id}` makes of `current` (absent: of nothing). What the
// body leaves out stays; an object in it (env, retry, queue, state_config) replaces the whole one.
// Looks only whether there is code, not into it: that is readCode() in upload.h. The version, hash
// and times stay as they are.
//
// InvalidJson; InvalidArgument, with a field `field` where one is to blame; Unprocessable for an
// isolation that this server does not have, or a network that it does not give.
Result<Definition> update(const std::optional<Definition>& current, const FunctionId& id,
                          std::string_view body, const Defaults& defaults);

// Makes runtime and handler those of an earlier version. What follows from the runtime follows.
void setRuntime(Definition& definition, Runtime runtime, std::string_view handler);

// The function resource of the API.
std::string toJson(const Definition& definition);

// ---- for the store: what was said, and nothing that was not

std::string settingsJson(const Definition& definition);
Result<Definition> readSettings(const FunctionId& id, const JsonValue& settings,
                                const Defaults& defaults);

}  // namespace nimbus::function
