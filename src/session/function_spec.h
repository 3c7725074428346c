#pragma once
// What the call path knows of a function's version. Whoever deploys functions makes these.

#include "base/clock.h"
#include "runtime/launcher.h"
#include "session/function_metrics.h"
#include "state/rules.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace nimbus::session {

enum class OnError : std::uint8_t { Rollback, Keep };

// What becomes of an asynchronous call whose last attempt has failed: it goes aside, or its session
// waits for somebody to decide.
enum class OnPoison : std::uint8_t { Park, Pause };

// Of asynchronous calls.
struct Retry {
  std::uint32_t max_attempts = 3;
  Millis initial{1'000};  // before the second attempt
  double factor = 2;      // by which each wait is longer than the one before
  Millis max{300'000};
};

struct FunctionSpec {
  std::string id;
  std::int64_t version = 1;
  std::string runtime = "exec";  // for people
  std::string handler;
  std::string directory;     // where its files are
  std::string dependencies;  // where what it needs besides is; empty: it needs nothing
  std::map<std::string, std::string> env;
  std::shared_ptr<runtime::Launcher> launcher;

  Millis timeout{30'000};
  unsigned memory_mb = 256;  // 0: no limit
  unsigned min_instances = 0;
  unsigned max_instances = 4;
  unsigned concurrency = 1;
  bool session_affinity = true;
  std::optional<Millis> session_timeout = std::chrono::hours(1);  // absent: sessions do not expire
  OnError on_error = OnError::Rollback;
  std::uint32_t max_waiting = 1000;  // per session; 0: no limit
  std::uint32_t max_queued = 1000;   // asynchronous calls per session, also where others wait
  Retry retry;
  OnPoison on_poison = OnPoison::Park;
  state::Rules rules;

  std::shared_ptr<FunctionMetrics> metrics = std::make_shared<FunctionMetrics>();
};

using FunctionPtr = std::shared_ptr<const FunctionSpec>;

// The head of the Load frame.
std::string loadHead(const FunctionSpec& function);

}  // namespace nimbus::session
