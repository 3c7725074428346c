#include "http/problem.h"

#include "base/json_text.h"
#include "http/text.h"

#include <array>
#include <utility>

namespace nimbus::http {
namespace {

struct CodeText {
  int status;
  std::string_view title;
};

// In the order of Code.
constexpr std::array<CodeText, 21> kCodes = {{
    {400, "The body is not the JSON expected"},
    {400, "The request is not valid"},
    {401, "Authentication is required"},
    {403, "Not allowed"},
    {404, "Not found"},
    {405, "Method not allowed"},
    {409, "Conflict with the present state"},
    {412, "The version has changed"},
    {413, "Too large"},
    {415, "Media type not supported"},
    {422, "Cannot be processed"},
    {429, "Quota exceeded"},
    {429, "Rate limit exceeded"},
    {429, "The queue is full"},
    {500, "The function failed"},
    {500, "Internal error"},
    {502, "The function's instance died"},
    {503, "Temporarily unavailable"},
    {503, "Ownership has moved"},
    {504, "Timed out"},
    {507, "No storage left"},
}};
static_assert(kCodes.size() == static_cast<std::size_t>(Code::InsufficientStorage) + 1);

const CodeText& textOf(Code code) {
  return kCodes.at(static_cast<std::size_t>(code));
}

void appendMember(std::string& out, std::string_view name, std::string_view value) {
  out += ',';
  appendJsonString(out, name);
  out += ':';
  appendJsonString(out, value);
}

void appendField(std::string& out, const Error::Field& field) {
  if (const auto* text = std::get_if<std::string>(&field.value)) {
    appendMember(out, field.name, *text);
    return;
  }
  out += ',';
  appendJsonString(out, field.name);
  out += ':';
  appendNumber(out, std::get<std::int64_t>(field.value));
}

std::string_view textField(const Error& error, std::string_view name) {
  for (const Error::Field& field : error.fields()) {
    const auto* text = std::get_if<std::string>(&field.value);
    if (field.name == name && text != nullptr) return *text;
  }
  return {};
}

void addHeaders(const Error& error, Response& response) {
  const std::int64_t retry_after_ms = error.field("retry_after_ms", -1);
  if (retry_after_ms >= 0) {
    std::string seconds;
    // Rounded up: a client that waits as told must not come too early.
    appendNumber(seconds, (retry_after_ms + 999) / 1000);
    response.header("Retry-After", seconds);
  }
  if (error.code() == Code::Unauthenticated) response.header("WWW-Authenticate", "Bearer");
  if (const auto allowed = textField(error, "allowed");
      error.code() == Code::MethodNotAllowed && !allowed.empty()) {
    response.header("Allow", allowed);
  }
}

Response render(const Error& error, int status, std::string_view title,
                std::string_view request_id) {
  std::string body = R"({"type":"urn:nimbus:error:)";
  body += codeName(error.code());
  body += '"';
  appendMember(body, "title", title);
  body += R"(,"status":)";
  appendNumber(body, status);
  appendMember(body, "detail", error.message());
  appendMember(body, "code", codeName(error.code()));
  appendMember(body, "request_id", request_id);
  appendMember(body, "outcome", outcomeName(error.outcome()));
  for (const Error::Field& field : error.fields()) appendField(body, field);
  body += '}';

  Response response = Response::json(std::move(body), status);
  response.content_type = kProblemJson;
  addHeaders(error, response);
  return response;
}

}  // namespace

int statusOf(Code code) {
  return textOf(code).status;
}

std::string_view reasonOf(int status) {
  switch (status) {
    case 100:
      return "Continue";
    case 200:
      return "OK";
    case 201:
      return "Created";
    case 202:
      return "Accepted";
    case 204:
      return "No Content";
    case 206:
      return "Partial Content";
    case 301:
      return "Moved Permanently";
    case 302:
      return "Found";
    case 303:
      return "See Other";
    case 304:
      return "Not Modified";
    case 307:
      return "Temporary Redirect";
    case 308:
      return "Permanent Redirect";
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 406:
      return "Not Acceptable";
    case 408:
      return "Request Timeout";
    case 409:
      return "Conflict";
    case 410:
      return "Gone";
    case 412:
      return "Precondition Failed";
    case 413:
      return "Content Too Large";
    case 414:
      return "URI Too Long";
    case 415:
      return "Unsupported Media Type";
    case 417:
      return "Expectation Failed";
    case 422:
      return "Unprocessable Content";
    case 428:
      return "Precondition Required";
    case 429:
      return "Too Many Requests";
    case 431:
      return "Request Header Fields Too Large";
    case 499:
      return "Client Closed Request";
    case 500:
      return "Internal Server Error";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    case 507:
      return "Insufficient Storage";
    default:
      return "Other";
  }
}

Response problem(const Error& error, std::string_view request_id) {
  const CodeText& text = textOf(error.code());
  return render(error, text.status, text.title, request_id);
}

Response problem(const Refusal& refusal, std::string_view request_id) {
  const CodeText& text = textOf(refusal.error.code());
  // The title belongs to the code; where the status says more, its own name is the better title.
  const bool is_own_status = text.status == refusal.status;
  return render(refusal.error, refusal.status,
                is_own_status ? text.title : reasonOf(refusal.status), request_id);
}

}  // namespace nimbus::http
