#pragma once

#include "base/result.h"
#include "base/task.h"
#include "http/request.h"
#include "http/route.h"

namespace nimbus::http {

// Decides whether a request may go on. Called for every request that has a route, on its
// connection's thread and before its body is read, so strangers cannot make us hold theirs.
class Authorizer {
 public:
  virtual ~Authorizer() = default;

  // An error is the answer. May set request.principal and request.answer_fields. Both references
  // live until the task ends.
  virtual Task<Result<>> authorize(Request& request, const Route& route) = 0;
};

}  // namespace nimbus::http
