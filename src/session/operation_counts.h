#pragma once
// The operations on state that an instance carried out itself, as the head of a Result tells them:
//
//   "operations": {"get": 2, "set": 1, "set:too_large": 1, "invocation/get": 3}
//
// A name is an operation of session scope; before it may stand another scope, behind it the code of
// an error.

#include "base/json.h"
#include "session/function_metrics.h"

namespace nimbus::session {

// Counts what is understood of it and ignores the rest: a newer instance may know more.
void countOperations(const JsonValue& operations, OperationTallies& tallies);

}  // namespace nimbus::session
