#pragma once
// What a request asks for: /path?query, checked so that nobody after us can read it as another
// path.

#include "http/problem.h"
#include "http/request.h"

#include <optional>
#include <string_view>

namespace nimbus::http {

// Fills raw_path, path and query from request.target. `host` is the Host field: a target that names
// a host must name that one.
//
// Paths are never normalised. One with an empty or `..` segment, encoded or not, is refused.
std::optional<Refusal> parseTarget(std::string_view host, Request& request);

}  // namespace nimbus::http
