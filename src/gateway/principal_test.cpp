#include "gateway/principal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace nimbus::gateway {
namespace {

class PrincipalTest : public ::testing::Test {
 protected:
  static Principal with(std::set<std::string, std::less<>> scopes,
                        std::optional<std::string> prefix = {}) {
    Principal principal;
    principal.id = "k1";
    principal.scopes = std::move(scopes);
    principal.session_prefix = std::move(prefix);
    return principal;
  }
  static http::Route route(std::string scope) {
    http::Route route;
    route.scope = std::move(scope);
    return route;
  }
  static bool mayUse(const Principal& principal, const http::Route& route,
                     std::string_view parameter = {}, std::string_view value = {}) {
    http::Request request;
    if (!parameter.empty()) request.parameters.add(parameter, value);
    return checkRoute(principal, request, route).has_value();
  }
};

TEST_F(PrincipalTest, ScopesAreExactAndAdminHasAll) {
  EXPECT_TRUE(mayUse(with({"flows:read"}), route("flows:read")));
  EXPECT_FALSE(mayUse(with({"flows:read"}), route("flows:write")));
  EXPECT_FALSE(mayUse(with({"flows:write"}), route("flows:read")));
  EXPECT_TRUE(mayUse(with({"admin"}), route("flows:read")));
  EXPECT_FALSE(mayUse(with({"flows:read"}), route("admin")));
}

TEST_F(PrincipalTest, InvokeMayBeForOneFunction) {
  http::Route invoke = route("invoke");
  const Principal cart = with({"invoke:cart"});
  EXPECT_TRUE(mayUse(cart, invoke, "id", "cart"));
  EXPECT_FALSE(mayUse(cart, invoke, "id", "cart2"));
  EXPECT_FALSE(mayUse(cart, invoke, "id", "car"));
  EXPECT_TRUE(mayUse(with({"invoke"}), invoke, "id", "anything"));
  EXPECT_FALSE(mayUse(cart, invoke)) << "no function is named, and nobody will ask";
  invoke.checks_reach = true;
  EXPECT_TRUE(mayUse(cart, invoke));
  EXPECT_FALSE(mayUse(with({"functions:read"}), invoke, "id", "cart"));
  EXPECT_FALSE(mayUse(cart, route("functions:read"), "id", "cart"));
}

TEST_F(PrincipalTest, APrefixHoldsWhereverThePathNamesASession) {
  const Principal alice = with({"admin"}, "alice:");
  EXPECT_TRUE(mayUse(alice, route("sessions:write"), "session_key", "alice:1"));
  EXPECT_FALSE(mayUse(alice, route("sessions:write"), "session_key", "alice"));
  EXPECT_FALSE(mayUse(alice, route("sessions:write"), "session_key", "bob:1"));
  EXPECT_TRUE(mayUse(alice, route("events:read"), "user", "alice:x"));
  EXPECT_FALSE(mayUse(alice, route("events:read"), "user", "_"));
}

TEST_F(PrincipalTest, TheLogsOfAFunctionAreReachedByTheirSession) {
  http::Request request;
  request.parameters.add("user", "_");
  request.parameters.add("sid", "alice:1");
  EXPECT_TRUE(checkRoute(with({"events:read"}, "alice:"), request, route("events:read")));
  EXPECT_FALSE(checkRoute(with({"events:read"}, "bob:"), request, route("events:read")));
}

TEST_F(PrincipalTest, WithAPrefixWhatNamesNoSessionIsClosedUnlessItTellsOfNone) {
  const Principal alice = with({"admin"}, "alice:");
  for (const char* scope : {"admin", "functions:write", "sessions:read", "events:write", "invoke",
                            "flows:write", "cron:write", "devices:admin"}) {
    EXPECT_FALSE(mayUse(alice, route(scope))) << scope;
  }
  EXPECT_TRUE(mayUse(alice, route("functions:read")));
  EXPECT_TRUE(mayUse(alice, route("metrics:read")));
  http::Route asks = route("invoke");
  asks.checks_reach = true;
  EXPECT_TRUE(mayUse(alice, asks));
}

TEST_F(PrincipalTest, HandlersAskForSessionsAndFunctions) {
  http::Request request;
  request.principal = std::make_shared<Principal>(with({"invoke:cart"}, "alice:"));
  EXPECT_TRUE(checkSession(request, "alice:1"));
  EXPECT_FALSE(checkSession(request, "bob:1"));
  EXPECT_FALSE(checkSession(request, std::nullopt));
  EXPECT_FALSE(checkAllSessions(request));
  EXPECT_TRUE(checkInvoke(request, "cart"));
  const auto refused = checkInvoke(request, "mail");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), ::testing::HasSubstr("invoke:mail"));

  request.principal = std::make_shared<Principal>(with({"invoke"}));
  EXPECT_TRUE(checkSession(request, std::nullopt));
  EXPECT_TRUE(checkAllSessions(request));
  EXPECT_TRUE(checkInvoke(request, "mail"));
}

TEST_F(PrincipalTest, OnlyKnownScopesCanBeGiven) {
  for (const char* scope :
       {"admin", "functions:read", "functions:write", "invoke", "invoke:cart", "sessions:read",
        "sessions:write", "events:read", "events:write", "flows:read", "flows:write", "cron:read",
        "cron:write", "devices:admin", "metrics:read"}) {
    EXPECT_TRUE(checkScope(scope)) << scope;
  }
  for (const char* scope : {"", "Admin", "functions", "functions:*", "invoke:", "invoke:a b",
                            "sessions:read ", "devices:read", "*"}) {
    const auto refused = checkScope(scope);
    ASSERT_FALSE(refused) << scope;
    EXPECT_EQ(refused.error().code(), Code::InvalidArgument);
  }
  EXPECT_THAT(checkScope("x").error().message(), ::testing::HasSubstr("metrics:read"));
}

}  // namespace
}  // namespace nimbus::gateway
