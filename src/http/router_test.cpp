#include "http/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace nimbus::http {
namespace {

Task<Result<Response>> nothing(Request& /*request*/) {
  co_return Response::noContent();
}

Route route(Method method, std::string pattern) {
  return {.method = method, .pattern = std::move(pattern), .handler = nothing};
}

class RouterTest : public ::testing::Test {
 protected:
  RouterTest() {
    for (const char* pattern :
         {"/", "/health", "/api/v1/functions", "/api/v1/functions/{id:name}",
          "/api/v1/functions/{id:name}/state/{session_key:text}",
          "/api/v1/functions/{id:name}/state/{session_key:text}/{key:text}",
          "/api/v1/functions/{id:name}/sessions/{session_key:text}",
          "/api/v1/functions/{id:name}/sessions/special", "/api/v1/events/poll",
          "/api/v1/events/{eid}", "/api/v1/flows:metrics", "/api/v1/flows/{flow_id}",
          "/assets/{path:rest}"}) {
      router_.add(route(Method::Get, pattern));
    }
    router_.add(route(Method::Put, "/api/v1/functions/{id:name}"));
    router_.add(route(Method::Delete, "/api/v1/functions/{id:name}"));
    router_.add(route(Method::Post, "/api/v1/functions/{id:name}/sessions:import"));
    router_.add(route(Method::Post, "/api/v1/functions/{id:name}/sessions/{session_key}:fork"));
    router_.add(route(Method::Post, "/api/v1/events/{eid}/poll"));
  }

  // "pattern a=1 b=2", or "405 GET, HEAD", "404", "400".
  std::string match(Method method, std::string_view path) {
    request_.reset();
    request_.method = method;
    request_.raw_path = path;
    const auto found = router_.match(request_);
    if (!found) return "400";
    if (found->route == nullptr) {
      return found->allowed.empty() ? "404" : "405 " + found->allowed;
    }
    std::string text = found->route->pattern;
    for (const char* name : {"id", "session_key", "key", "eid", "flow_id", "path"}) {
      if (text.find("{" + std::string(name) + "}") == std::string::npos &&
          text.find("{" + std::string(name) + ":") == std::string::npos) {
        continue;
      }
      text += " " + std::string(name) + "=" + std::string(request_.parameters[name]);
    }
    return text;
  }

  Router router_;
  Request request_;
};

TEST_F(RouterTest, FindsLiteralsAndParameters) {
  EXPECT_EQ(match(Method::Get, "/"), "/");
  EXPECT_EQ(match(Method::Get, "/health"), "/health");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions"), "/api/v1/functions");
  EXPECT_EQ(match(Method::Put, "/api/v1/functions/cart"), "/api/v1/functions/{id:name} id=cart");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/cart/state/alice/items"),
            "/api/v1/functions/{id:name}/state/{session_key:text}/{key:text} id=cart "
            "session_key=alice key=items");
}

TEST_F(RouterTest, SplitsBeforeItDecodes) {
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/cart/state/a%2Fb"),
            "/api/v1/functions/{id:name}/state/{session_key:text} id=cart session_key=a/b");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/cart/state/%7B*%3F%5B/%25+"),
            "/api/v1/functions/{id:name}/state/{session_key:text}/{key:text} id=cart "
            "session_key={*?[ key=%+");
  EXPECT_EQ(match(Method::Get, "/%68ealth"), "/health");
}

TEST_F(RouterTest, LiteralsWinOverParameters) {
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/f/sessions/special"),
            "/api/v1/functions/{id:name}/sessions/special id=f");
  EXPECT_EQ(match(Method::Get, "/api/v1/events/poll"), "/api/v1/events/poll");
  EXPECT_EQ(match(Method::Get, "/api/v1/events/poll2"), "/api/v1/events/{eid} eid=poll2");
  // A literal that leads nowhere does not hide a parameter that leads somewhere.
  EXPECT_EQ(match(Method::Post, "/api/v1/events/poll/poll"), "/api/v1/events/{eid}/poll eid=poll");
}

TEST_F(RouterTest, KnowsCustomVerbs) {
  EXPECT_EQ(match(Method::Post, "/api/v1/functions/f/sessions:import"),
            "/api/v1/functions/{id:name}/sessions:import id=f");
  EXPECT_EQ(match(Method::Get, "/api/v1/flows:metrics"), "/api/v1/flows:metrics");
  EXPECT_EQ(match(Method::Post, "/api/v1/functions/f/sessions/a:b:fork"),
            "/api/v1/functions/{id:name}/sessions/{session_key}:fork id=f session_key=a:b");
  // The verb belongs to POST; to GET the same text is a session key.
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/f/sessions/a:fork"),
            "/api/v1/functions/{id:name}/sessions/{session_key:text} id=f session_key=a:fork");
  // An encoded colon is data.
  EXPECT_EQ(match(Method::Post, "/api/v1/functions/f/sessions/a%3Afork"), "405 GET, HEAD, OPTIONS");
  EXPECT_EQ(match(Method::Post, "/api/v1/functions/f/sessions/:fork"), "400");
}

TEST_F(RouterTest, ChecksParametersByTheirType) {
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/-bad"), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/a%20b"), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/" + std::string(129, 'a')), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/"), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/f/state/a%0Ab"), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/f/state/" + std::string(257, 'a')), "400");
  EXPECT_EQ(match(Method::Get, "/api/v1/functions/f/state/" + std::string(256, 'a')),
            "/api/v1/functions/{id:name}/state/{session_key:text} id=f session_key=" +
                std::string(256, 'a'));
}

TEST_F(RouterTest, TellsWhatIsMissingFromWhatIsNotAllowed) {
  EXPECT_EQ(match(Method::Get, "/nowhere"), "404");
  EXPECT_EQ(match(Method::Get, "/health/"), "404");
  EXPECT_EQ(match(Method::Get, "/api/v1"), "404");
  EXPECT_EQ(match(Method::Get, "/Health"), "404");
  EXPECT_EQ(match(Method::Post, "/health"), "405 GET, HEAD, OPTIONS");
  EXPECT_EQ(match(Method::Patch, "/api/v1/functions/f"), "405 GET, HEAD, PUT, DELETE, OPTIONS");
  EXPECT_EQ(match(Method::Options, "/health"), "405 GET, HEAD, OPTIONS");
  EXPECT_EQ(match(Method::Head, "/health"), "/health");
  EXPECT_EQ(match(Method::Head, "/api/v1/functions/f/sessions:import"), "405 POST, OPTIONS");
}

TEST_F(RouterTest, TheRestMayHoldSlashes) {
  EXPECT_EQ(match(Method::Get, "/assets/js/app.js"), "/assets/{path:rest} path=js/app.js");
  EXPECT_EQ(match(Method::Get, "/assets/"), "/assets/{path:rest} path=");
  EXPECT_EQ(match(Method::Get, "/assets"), "404");
}

using RouterDeathTest = RouterTest;

TEST_F(RouterDeathTest, TwoRoutesForOnePlaceAreABug) {
  EXPECT_DEATH(router_.add(route(Method::Get, "/health")), "same method and pattern");
  EXPECT_DEATH(router_.add(route(Method::Get, "/api/v1/events/{other}")),
               "same method and pattern");
  EXPECT_DEATH(router_.add(route(Method::Get, "no/slash")), "begins with");
}

}  // namespace
}  // namespace nimbus::http
