#pragma once
// The scripts that do batches: what scripts.cpp puts before them reads the time and, for any batch,
// the arguments.

namespace nimbus::store::redis {

extern const char* const kCommitBody;  // any batch
extern const char* const kAppendBody;  // Puts, then Appends to one log, and listings

}  // namespace nimbus::store::redis
