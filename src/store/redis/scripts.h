#pragma once
// The Lua scripts that run inside Redis. What they are called with is written by encoding.cpp, the
// keys they use are those of layout.h.
//
// Values are opaque bytes: a script puts a header of decimal numbers before them and never looks
// inside. Numbers that may exceed what a double can count (versions, nonces, sums) stay text.

#include "redis/command.h"

namespace nimbus::store::redis {

// Any batch.
const nimbus::redis::Script& commitScript();
// A batch of Puts and record conditions, perhaps with a fence: what most commits are. The same in
// less time.
const nimbus::redis::Script& putScript();
// The same for Puts that are followed by Appends to one log, with listings: what an event log does.
const nimbus::redis::Script& appendScript();
// Any queries.
const nimbus::redis::Script& readScript();
// GetRecord and GetLogInfo.
const nimbus::redis::Script& lookScript();
const nimbus::redis::Script& sweepScript();
const nimbus::redis::Script& listScript();
const nimbus::redis::Script& readDirectoryScript();

}  // namespace nimbus::store::redis
