#pragma once
// A command on its way, and who hears of its end.

#include "base/result.h"
#include "base/steady_clock.h"
#include "redis/address.h"
#include "redis/command.h"
#include "redis/value.h"

#include <cstdint>
#include <optional>
#include <string>

namespace nimbus::redis {

class Request {
 public:
  virtual ~Request() = default;

  // Once, on the client's thread. Errors: what the server answered (see errorOf), or Unavailable:
  // NotApplied if it was never sent, Unknown if its answer was lost.
  virtual void onAnswer(Result<Value> answer) = 0;
  // Only if it wants replicas, once, after onAnswer() was given a value: whether as many replicas
  // as the client waits for have what it wrote. Unknown if not.
  virtual void onConfirmed(const Result<>& /*confirmed*/) {}

  // What is sent.
  std::string bytes;
  // The slot of its keys. Absent: any node will do.
  std::optional<std::uint16_t> slot;
  // The one node that shall answer it, whatever its keys.
  std::optional<Address> node;
  // The script that it runs by EVALSHA; must outlive the request.
  const Script* script = nullptr;
  SteadyTime deadline;
  bool wants_replicas = false;
  // It may be sent again when its answer was lost.
  bool repeatable = false;
  // How often it had to be sent again; the client's.
  unsigned int attempts = 0;
};

// An answer that is an error, as ours. NotApplied where Redis says so before it does anything.
Error errorOf(const Value& answer);

}  // namespace nimbus::redis
