#pragma once
// What the asynchronous calls of a function need of the function's host.

#include "base/result.h"
#include "session/activation.h"
#include "session/call.h"
#include "store/batch.h"

#include <nimbus/dispatch/async.h>
#include <nimbus/dispatch/task.h>

#include <functional>
#include <string>

namespace nimbus::session {

class LineHost {
 public:
  using Activated = std::function<void(Result<ActivationPtr>)>;

  virtual ~LineHost() = default;
  // Calls back, perhaps at once, when the session is in memory and ours, or why it cannot be.
  virtual void whenActive(const std::string& session_key, const FunctionPtr& function,
                          Activated then) = 0;
  virtual void commit(Activation& activation, store::Batch batch) = 0;
  virtual dispatch::Async<dispatch::TaskOutcome> run(CallPtr call) = 0;
  virtual void cancelRunning(const Call& call) = 0;
  virtual bool isStopping() const = 0;
  // It is called, and stays in memory for a while.
  virtual void use(Activation& activation) = 0;
};

}  // namespace nimbus::session
