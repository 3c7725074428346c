#pragma once
// What a route is: how it is reached, what it needs, what it does, and what the OpenAPI document
// says about it. Being one declaration, they cannot drift apart.

#include "base/error.h"
#include "base/result.h"
#include "base/task.h"
#include "http/method.h"
#include "http/request.h"
#include "http/response.h"

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace nimbus::http {

// Runs on the connection's thread. The Request lives until the task ends. An Error becomes its
// problem+json; an exception becomes 500 `internal` and a log line.
using Handler = std::function<Task<Result<Response>>(Request&)>;

// A JSON Schema as JSON text, such as R"({"$ref": "#/components/schemas/Function"})"; empty: any.
using Schema = std::string;

struct QueryNote {
  std::string name;
  std::string description = {};
  Schema schema = R"({"type":"string"})";
};

struct BodyNote {
  std::string description = {};
  Schema schema = {};
  std::string content_type = "application/json";
};

struct AnswerNote {
  int status = 200;
  std::string description = {};
  Schema schema = {};
  std::string content_type = "application/json";
};

struct Route {
  Method method = Method::Get;

  // Segments are literals or parameters:
  //   {id}        any non-empty text of at most 256 bytes, as {id:text}
  //   {id:name}   checkName() of base/ids.h; {id:text} checkText()
  //   {path:rest} everything that is left, '/' included; only at the end
  //   {id}:verb   a parameter followed by a custom verb; a ':' that is data is sent as %3A
  std::string pattern;
  Handler handler;

  std::string operation_id = {};  // made of method and pattern if empty
  std::string summary = {};
  std::string description = {};
  std::string tag = {};
  // What the caller must be allowed to do; empty: anyone may call it.
  std::string scope = {};
  // The handler itself asks the principal which objects it may reach. Without this a principal that
  // may not reach all is refused, unless the path says which is meant.
  bool checks_reach = false;

  std::vector<QueryNote> query = {};
  std::vector<BodyNote> body = {};  // one per media type; none: no body is read
  // How long a body may be, if that is more than the server's limit for all.
  std::size_t max_body_bytes = 0;
  std::vector<AnswerNote> answers = {};
  std::vector<Code> errors = {};  // beyond those any route can have
};

}  // namespace nimbus::http
