#pragma once
// Errors as clients see them: application/problem+json (RFC 9457).
//
//   {"type", "title", "status", "detail", "code", "request_id", "outcome", ...fields of the Error}
//
// This is the one place where a Code becomes a status.

#include "base/error.h"
#include "http/response.h"

#include <string_view>

namespace nimbus::http {

int statusOf(Code code);

// What a status is called: "Not Found".
std::string_view reasonOf(int status);

// A request the server itself turns away. The status may be finer than the code's own: 414, 431 and
// 413 are all `too_large`.
struct Refusal {
  int status;
  Error error;

  Refusal(int http_status, Code code, std::string why)
      : status(http_status), error(code, std::move(why)) {}
  // Malformed input: 400 invalid_argument.
  explicit Refusal(std::string why) : Refusal(400, Code::InvalidArgument, std::move(why)) {}
  explicit Refusal(Error why) : status(statusOf(why.code())), error(std::move(why)) {}
};

// Also sets the header fields that belong to a code: `Retry-After` from the field `retry_after_ms`,
// `WWW-Authenticate` for unauthenticated, `Allow` from the field `allowed`.
Response problem(const Error& error, std::string_view request_id);
Response problem(const Refusal& refusal, std::string_view request_id);

}  // namespace nimbus::http
