#include "http/openapi.h"

#include <boost/json.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace nimbus::http {
namespace {

namespace json = boost::json;

Task<Result<Response>> nothing(Request& /*request*/) {
  co_return Response::noContent();
}

class OpenApiTest : public ::testing::Test {
 protected:
  OpenApiTest() {
    router_.addSchema("Function", R"({"type": "object"})");
    router_.add({.method = Method::Get,
                 .pattern = "/api/v1/functions",
                 .handler = nothing,
                 .summary = "Lists functions",
                 .tag = "functions",
                 .scope = "functions:read",
                 .query = {{.name = "limit", .schema = R"({"type":"integer"})"}},
                 .answers = {{.schema = R"({"type":"object"})"}}});
    router_.add({.method = Method::Put,
                 .pattern = "/api/v1/functions/{id:name}",
                 .handler = nothing,
                 .tag = "functions",
                 .scope = "functions:write",
                 .body = {{.schema = R"({"$ref":"#/components/schemas/Function"})"}},
                 .answers = {{.status = 201, .description = "Created"}},
                 .errors = {Code::Unprocessable, Code::InvalidJson}});
    router_.add({.method = Method::Delete,
                 .pattern = "/api/v1/functions/{id:name}",
                 .handler = nothing,
                 .answers = {{.status = 204}}});
    router_.add({.method = Method::Post,
                 .pattern = "/api/v1/functions/{id:name}/sessions/{session_key}:fork",
                 .handler = nothing});
    router_.add({.method = Method::Get, .pattern = "/health", .handler = nothing});
    document_ = json::parse(openApiDocument(router_, {.title = "Nimbus", .version = "1.2.3"}));
  }

  const json::object& operation(std::string_view path, std::string_view method) {
    return document_.at("paths").at(path).at(method).as_object();
  }

  Router router_;
  json::value document_;
};

TEST_F(OpenApiTest, NamesItsVersionAndTheServers) {
  EXPECT_EQ(document_.at("openapi"), "3.1.0");
  EXPECT_EQ(document_.at("info").at("title"), "Nimbus");
  EXPECT_EQ(document_.at("info").at("version"), "1.2.3");
}

TEST_F(OpenApiTest, HasEveryRouteAndOnlyThose) {
  std::set<std::string> described;
  std::set<std::string> ids;
  for (const auto& [path, item] : document_.at("paths").as_object()) {
    for (const auto& [method, each] : item.as_object()) {
      described.insert(std::string(method) + " " + std::string(path));
      ids.insert(std::string(each.at("operationId").as_string()));
      EXPECT_TRUE(each.at("responses").as_object().contains("default"));
    }
  }
  EXPECT_THAT(described,
              ::testing::ElementsAre("delete /api/v1/functions/{id}", "get /api/v1/functions",
                                     "get /health",
                                     "post /api/v1/functions/{id}/sessions/{session_key}:fork",
                                     "put /api/v1/functions/{id}"));
  EXPECT_EQ(ids.size(), described.size());
  EXPECT_TRUE(ids.contains("postFunctionsIdSessionsSessionKeyFork"));
}

TEST_F(OpenApiTest, DescribesParametersBodiesAndAnswers) {
  const auto& list = operation("/api/v1/functions", "get");
  EXPECT_EQ(list.at("parameters").at(0).at("in"), "query");
  EXPECT_EQ(list.at("parameters").at(0).at("schema").at("type"), "integer");
  EXPECT_EQ(list.at("summary"), "Lists functions");

  const auto& put = operation("/api/v1/functions/{id}", "put");
  EXPECT_EQ(put.at("parameters").at(0).at("name"), "id");
  EXPECT_EQ(put.at("parameters").at(0).at("required"), true);
  EXPECT_EQ(put.at("requestBody").at("content").at("application/json").at("schema").at("$ref"),
            "#/components/schemas/Function");
  EXPECT_TRUE(put.at("responses").as_object().contains("201"));
  EXPECT_EQ(put.at("responses").at("400").at("description"), "`invalid_json`, `invalid_argument`");
  EXPECT_TRUE(put.at("responses").as_object().contains("413"));
  EXPECT_TRUE(put.at("responses").as_object().contains("422"));

  const auto& remove = operation("/api/v1/functions/{id}", "delete");
  EXPECT_FALSE(remove.at("responses").at("204").as_object().contains("content"));
}

TEST_F(OpenApiTest, SaysWhichScopeIsNeeded) {
  const auto& put = operation("/api/v1/functions/{id}", "put");
  EXPECT_EQ(put.at("security").at(0).at("api_key").at(0), "functions:write");
  EXPECT_EQ(put.at("x-required-scope"), "functions:write");
  EXPECT_TRUE(put.at("responses").as_object().contains("401"));
  EXPECT_TRUE(operation("/health", "get").at("security").as_array().empty());
  EXPECT_FALSE(operation("/health", "get").at("responses").as_object().contains("401"));
}

// A reference to a schema that is not there would break every generated client.
TEST_F(OpenApiTest, EveryReferenceLeadsSomewhere) {
  const auto& schemas = document_.at("components").at("schemas").as_object();
  const std::string text = json::serialize(document_);
  const std::string_view prefix = R"("$ref":"#/components/schemas/)";
  int references = 0;
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at)) {
    at += prefix.size();
    const std::string name = text.substr(at, text.find('"', at) - at);
    EXPECT_TRUE(schemas.contains(name)) << name;
    ++references;
  }
  EXPECT_GT(references, 5);
  EXPECT_TRUE(schemas.at("Problem").at("properties").as_object().contains("request_id"));
}

}  // namespace
}  // namespace nimbus::http
