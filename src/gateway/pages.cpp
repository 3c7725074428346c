#include "gateway/pages.h"

#include "base/version.h"
#include "gateway/docs_page.h"
#include "http/openapi.h"
#include "http/router.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace nimbus::gateway {
namespace {

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kScript = "text/javascript; charset=utf-8";
constexpr std::string_view kStyle = "text/css; charset=utf-8";

// Our pages run our own script and talk to our own server; nothing else, whatever is in them.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

http::Response asset(std::string_view bytes, std::string_view content_type) {
  http::Response response = http::Response::asset(bytes, content_type);
  response.header("Content-Security-Policy", kPolicy);
  response.header("X-Content-Type-Options", "nosniff");
  response.header("Referrer-Policy", "no-referrer");
  response.header("Cache-Control", "no-cache");
  return response;
}

Task<Result<http::Response>> serveAsset(std::string_view bytes, std::string_view content_type) {
  co_return asset(bytes, content_type);
}

http::Route assetRoute(std::string pattern, std::string summary, std::string_view bytes,
                       std::string_view content_type) {
  http::Route route;
  route.pattern = std::move(pattern);
  route.summary = std::move(summary);
  route.tag = "pages";
  route.answers = {{200, "The page", {}, std::string(content_type)}};
  route.handler = [bytes, content_type](http::Request&) { return serveAsset(bytes, content_type); };
  return route;
}

}  // namespace

void Pages::addRoutes(http::Router& router) {
  router.add(assetRoute("/", "Where to go from here", kIndexPage, kHtml));
  router.add(assetRoute("/docs", "This API, for reading", kDocsPage, kHtml));
  router.add(assetRoute("/docs/docs.js", "Script of /docs", kDocsScript, kScript));
  router.add(assetRoute("/docs/docs.css", "Style of / and /docs", kDocsStyle, kStyle));

  http::Route openapi;
  openapi.pattern = "/openapi.json";
  openapi.summary = "This API, for programs";
  openapi.tag = "pages";
  openapi.answers = {{200, "An OpenAPI 3.1 document", R"({"type": "object"})"}};
  openapi.handler = [this](http::Request&) { return serveAsset(document_, http::kJson); };
  router.add(std::move(openapi));

  http::Route metrics;
  metrics.pattern = "/metrics";
  metrics.summary = "Figures, for Prometheus";
  metrics.tag = "health";
  metrics.scope = "metrics:read";
  metrics.answers = {{200, "Prometheus' text format", R"({"type": "string"})", "text/plain"}};
  metrics.handler = [this](http::Request&) { return exposition(); };
  router.add(std::move(metrics));
}

void Pages::describe(const http::Router& router) {
  document_ = http::openApiDocument(
      router, {"Nimbus", std::string(version()),
               "Functions with durable state. Errors are application/problem+json; every answer "
               "carries Nimbus-Request-Id."});
}

Task<Result<http::Response>> Pages::exposition() {
  http::Response response = http::Response::text(metrics_.expose());
  response.content_type = "text/plain; version=0.0.4; charset=utf-8";
  co_return response;
}

}  // namespace nimbus::gateway
