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

struct FunctionSpec {
  std::string id;
  std::int64_t version = 1;
  std::string runtime = "exec";  // for people
  std::string handler;
  std::string directory;  // where its files are
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
  state::Rules rules;

  std::shared_ptr<FunctionMetrics> metrics = std::make_shared<FunctionMetrics>();
};

using FunctionPtr = std::shared_ptr<const FunctionSpec>;

// The head of the Load frame.
std::string loadHead(const FunctionSpec& function);

}  // namespace nimbus::session
