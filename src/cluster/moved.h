#pragma once
// What is answered about a session that another node owns: nothing was done here, and who to ask.

#include "base/error.h"

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::cluster {

struct Moved {
  std::string owner;  // key of the node
  std::string function_id;
  std::string session_key;
};

// Fenced, as any error of someone who is not the owner.
Error movedTo(Moved moved);

// Nothing if the error is another.
std::optional<Moved> movedIn(const Error& error);

}  // namespace nimbus::cluster
