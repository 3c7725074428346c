#pragma once
// The OpenAPI 3.1 document of a server, made of the routes it serves: what is not in the table is
// not in the document, and what is in the table cannot be left out.

#include "http/router.h"

#include <string>
#include <string_view>

namespace nimbus::http {

struct ApiInfo {
  std::string title;
  std::string version;
  std::string description = {};
};

// The route's own, or made of method and pattern: getFunctionsIdState for
// GET /api/v1/functions/{id}/state.
std::string operationId(const Route& route);

// JSON text. Aborts if a route's schema is not JSON: schemas are literals of ours.
std::string openApiDocument(const Router& router, const ApiInfo& info);

}  // namespace nimbus::http
