#pragma once
// State as it lies in the store: records of one space, whose values are the users' JSON.

#include "base/result.h"
#include "base/task.h"
#include "state/operation.h"
#include "state/rules.h"
#include "state/space.h"
#include "store/batch.h"
#include "store/store.h"

#include <string>

namespace nimbus::state {

// The space of a partition in which state lies.
inline constexpr const char* kSpace = "state";

// Adds the operations that make `changes`, which `space` has accepted, durable.
void appendTo(store::Batch& batch, Changes changes, const Space& space);

// Everything that is there and has not expired, however much. `answers` are those to
// loadQueries(), read with the rest that a caller wants from the same snapshot.
std::vector<store::Query> loadQueries();
Task<Result<Space>> loadSpace(store::Store& store, store::Partition partition,
                              std::vector<store::Answer> answers);

// Carries an operation out in the store itself, atomically and durably: state that has no single
// owner.
Task<Result<Answer>> applyInStore(store::Store& store, store::Partition partition,
                                  Operation operation, Rules rules);

}  // namespace nimbus::state
