#include "http/openapi.h"

#include "base/assert.h"
#include "http/pattern.h"
#include "http/problem.h"
#include "http/text.h"

#include <boost/json.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace nimbus::http {
namespace {

namespace json = boost::json;

constexpr std::string_view kProblemRef = R"({"$ref":"#/components/schemas/Problem"})";

constexpr std::string_view kProblemSchema = R"({
  "type": "object",
  "description": "An error (RFC 9457). `code` is stable; more members may follow, such as `current_version`, `limit`, `retry_after_ms` or `allowed`.",
  "required": ["type", "title", "status", "detail", "code", "request_id", "outcome"],
  "properties": {
    "type": {"type": "string", "format": "uri"},
    "title": {"type": "string"},
    "status": {"type": "integer"},
    "detail": {"type": "string"},
    "code": {"type": "string"},
    "request_id": {"type": "string"},
    "outcome": {
      "type": "string",
      "enum": ["not_applied", "applied", "unknown"],
      "description": "What became of the request: whoever retries must know whether it may already have happened."
    }
  }
})";

constexpr std::string_view kSecuritySchemes = R"({
  "api_key": {"type": "http", "scheme": "bearer", "description": "Authorization: Bearer nk_..."},
  "device_id": {"type": "apiKey", "in": "header", "name": "X-Device-Id"},
  "device_token": {"type": "apiKey", "in": "header", "name": "X-Device-Token"}
})";

json::value parse(std::string_view text) {
  boost::system::error_code failure;
  json::value value = json::parse(text, failure);
  NIMBUS_ASSERT(!failure, "a schema is JSON");
  return value;
}

json::value schemaValue(const Schema& schema) {
  return schema.empty() ? json::value(json::object()) : parse(schema);
}

std::string lowerCased(std::string_view text) {
  std::string lower(text);
  std::transform(lower.begin(), lower.end(), lower.begin(), lowerCase);
  return lower;
}

json::object parameterSchema(ParameterType type) {
  switch (type) {
    case ParameterType::Name:
      return {{"type", "string"}, {"pattern", "^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$"}};
    case ParameterType::Text:
      return {{"type", "string"}, {"minLength", 1}, {"maxLength", 256}};
    case ParameterType::Rest:
      break;
  }
  return {{"type", "string"}};
}

// The pattern as OpenAPI writes it: without our types.
std::string pathOf(const std::vector<PatternSegment>& segments) {
  std::string path;
  for (const PatternSegment& segment : segments) {
    path += '/';
    path += segment.is_parameter ? "{" + segment.text + "}" + segment.suffix : segment.text;
  }
  return path;
}

json::array parametersOf(const Route& route, const std::vector<PatternSegment>& segments) {
  json::array parameters;
  for (const PatternSegment& segment : segments) {
    if (!segment.is_parameter) continue;
    parameters.push_back({{"name", segment.text},
                          {"in", "path"},
                          {"required", true},
                          {"schema", parameterSchema(segment.type)}});
  }
  for (const QueryNote& note : route.query) {
    json::object parameter{{"name", note.name}, {"in", "query"}};
    if (!note.description.empty()) parameter["description"] = note.description;
    parameter["schema"] = schemaValue(note.schema);
    parameters.push_back(std::move(parameter));
  }
  return parameters;
}

json::object contentOf(std::string_view content_type, const json::value& schema) {
  return {{content_type, {{"schema", schema}}}};
}

json::object problemAnswer(std::string_view description) {
  return {{"description", description}, {"content", contentOf(kProblemJson, parse(kProblemRef))}};
}

json::object responsesOf(const Route& route) {
  json::object responses;
  for (const AnswerNote& note : route.answers) {
    json::object answer{{"description", note.description.empty()
                                            ? std::string(reasonOf(note.status))
                                            : note.description}};
    if (note.status != 204 && note.status != 304) {
      answer["content"] = contentOf(note.content_type, schemaValue(note.schema));
    }
    responses[std::to_string(note.status)] = std::move(answer);
  }
  if (route.answers.empty()) responses["200"] = {{"description", "OK"}};

  // Several codes share a status: their names are gathered.
  std::map<int, std::string> codes;
  std::vector<Code> errors = route.errors;
  errors.insert(errors.end(), {Code::InvalidArgument});
  if (!route.scope.empty()) errors.insert(errors.end(), {Code::Unauthenticated, Code::Forbidden});
  if (!route.body.empty()) errors.push_back(Code::TooLarge);
  for (const Code code : errors) {
    std::string& names = codes[statusOf(code)];
    const std::string name = fmt::format("`{}`", codeName(code));
    if (names.find(name) != std::string::npos) continue;
    if (!names.empty()) names += ", ";
    names += name;
  }
  for (const auto& [status, names] : codes) {
    responses[std::to_string(status)] = problemAnswer(names);
  }
  responses["default"] = problemAnswer("Any other error");
  return responses;
}

json::array securityOf(const Route& route) {
  if (route.scope.empty()) return {};
  const json::array scopes{json::value(route.scope)};
  json::object device;
  device["device_id"] = scopes;
  device["device_token"] = scopes;
  json::object key;
  key["api_key"] = scopes;
  json::array either;
  either.push_back(std::move(key));
  either.push_back(std::move(device));
  return either;
}

json::object operationOf(const Route& route, const std::vector<PatternSegment>& segments) {
  json::object operation;
  operation["operationId"] = operationId(route);
  if (!route.summary.empty()) operation["summary"] = route.summary;
  if (!route.description.empty()) operation["description"] = route.description;
  if (!route.tag.empty()) {
    json::array tags;
    tags.push_back(json::value(route.tag));
    operation["tags"] = std::move(tags);
  }
  if (!route.scope.empty()) operation["x-required-scope"] = route.scope;
  operation["security"] = securityOf(route);
  if (auto parameters = parametersOf(route, segments); !parameters.empty()) {
    operation["parameters"] = std::move(parameters);
  }
  if (!route.body.empty()) {
    json::object content;
    for (const BodyNote& note : route.body) {
      content[note.content_type] = {{"schema", schemaValue(note.schema)}};
    }
    json::object body{{"content", std::move(content)}};
    if (!route.body.front().description.empty()) {
      body["description"] = route.body.front().description;
    }
    operation["requestBody"] = std::move(body);
  }
  operation["responses"] = responsesOf(route);
  return operation;
}

}  // namespace

std::string operationId(const Route& route) {
  if (!route.operation_id.empty()) return route.operation_id;
  std::string id = lowerCased(methodName(route.method));
  for (const PatternSegment& segment : parsePattern(route.pattern)) {
    if (segment.text == "api" || segment.text == "v1") continue;
    bool is_word_begin = true;
    for (const char c : segment.text + segment.suffix) {
      const char lower = lowerCase(c);
      if ((lower < 'a' || lower > 'z') && !isDigit(c)) {
        is_word_begin = true;
        continue;
      }
      id += is_word_begin && lower == c && !isDigit(c) ? static_cast<char>(c - 'a' + 'A') : c;
      is_word_begin = false;
    }
  }
  return id;
}

std::string openApiDocument(const Router& router, const ApiInfo& info) {
  json::object paths;
  json::array tags;
  for (const auto& route : router.routes()) {
    const auto segments = parsePattern(route->pattern);
    json::value& path = paths[pathOf(segments)];
    if (!path.is_object()) path = json::object();
    path.as_object()[lowerCased(methodName(route->method))] = operationOf(*route, segments);
    const json::value tag{{"name", route->tag}};
    if (!route->tag.empty() && std::find(tags.begin(), tags.end(), tag) == tags.end()) {
      tags.push_back(tag);
    }
  }
  json::object schemas{{"Problem", parse(kProblemSchema)}};
  for (const auto& [name, schema] : router.schemas()) schemas[name] = schemaValue(schema);

  json::object about{{"title", info.title}, {"version", info.version}};
  if (!info.description.empty()) about["description"] = info.description;
  json::object document;
  document["openapi"] = "3.1.0";
  document["info"] = std::move(about);
  document["tags"] = std::move(tags);
  document["paths"] = std::move(paths);
  document["components"] = {{"schemas", std::move(schemas)},
                            {"securitySchemes", parse(kSecuritySchemes)}};
  return json::serialize(document);
}

}  // namespace nimbus::http
