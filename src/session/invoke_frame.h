#pragma once
// The frames by which a call and its state go to an instance.

#include "session/call.h"
#include "state/space.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace nimbus::session {

// Appends an Invoke frame of a call that begins now. `space`: the session's, null if the call is
// stateless.
void writeInvoke(std::string& out, std::uint64_t request, const Call& call,
                 const state::Space* space, Timestamp now);

// Appends the reply to a `load`: of these keys with their values, or of all without.
void writeLoaded(std::string& out, std::uint64_t request, std::int64_t id,
                 const state::Space& space, const std::vector<std::string>* keys);

// Appends the reply to another State frame.
void writeStateReply(std::string& out, std::uint64_t request, std::int64_t id,
                     state::Operation::Kind kind, const Result<state::Answer>& answer);

}  // namespace nimbus::session
