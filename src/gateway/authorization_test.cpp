#include "gateway/authorization.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <gtest/gtest.h>

#include <any>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::gateway {
namespace {

namespace asio = boost::asio;

class AuthorizationTest : public ::testing::Test {
 protected:
  static constexpr std::string_view kKey = "nk_the-administrators";

  // What a request with these Authorization fields gets from a route of that scope.
  static Result<> ask(Authorization& authorization, http::Request& request, std::string scope) {
    http::Route route;
    route.scope = std::move(scope);
    asio::io_context io;
    Result<> answer = Error(Code::Internal, "not asked");
    asio::co_spawn(io, authorization.authorize(request, route),
                   [&](const std::exception_ptr&, Result<> result) { answer = std::move(result); });
    io.run();
    return answer;
  }
  static Code ask(Authorization& authorization, std::string_view field, std::string scope) {
    http::Request request;
    request.headers.push_back({"Authorization", field});
    const auto answer = ask(authorization, request, std::move(scope));
    return answer ? Code{} : answer.error().code();
  }
  static constexpr Code kAllowed{};  // no route of ours answers with the first code

  static Authorization withKeys(Authorization::Options options = {}) {
    Authorization authorization(std::move(options));
    authorization.addKey(kKey, {"administrator", {"admin"}});
    authorization.addKey("nk_reader", {"reader", {"metrics:read", "flows:read"}});
    return authorization;
  }
};

TEST_F(AuthorizationTest, RoutesWithoutAScopeAreForEveryone) {
  auto authorization = withKeys();
  http::Request request;
  EXPECT_TRUE(ask(authorization, request, ""));
  EXPECT_EQ(ask(authorization, "Bearer wrong", ""), kAllowed);
}

TEST_F(AuthorizationTest, WithoutAKeyTheOthersAreClosed) {
  auto authorization = withKeys();
  http::Request request;
  const auto answer = ask(authorization, request, "metrics:read");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::Unauthenticated);
}

TEST_F(AuthorizationTest, TheAdministratorHasEveryScope) {
  auto authorization = withKeys();
  EXPECT_EQ(ask(authorization, "Bearer nk_the-administrators", "metrics:read"), kAllowed);
  EXPECT_EQ(ask(authorization, "Bearer nk_the-administrators", "whatever"), kAllowed);
  EXPECT_EQ(ask(authorization, "bEaReR   nk_the-administrators", "x"), kAllowed);
}

TEST_F(AuthorizationTest, WhatIsNotExactlyAKnownKeyIsRefused) {
  auto authorization = withKeys();
  for (const std::string_view field :
       {"", "Bearer", "Bearer ", "nk_the-administrators", "Basic nk_the-administrators",
        "Bearer nk_the-administrator", "Bearer nk_the-administratorsx",
        "Bearer nk_the-administrators x", "Bearer NK_THE-ADMINISTRATORS",
        "Bearer\tnk_the-administrators", "Bearer nk_the-administrators "}) {
    EXPECT_EQ(ask(authorization, field, "metrics:read"), Code::Unauthenticated) << field;
  }
}

TEST_F(AuthorizationTest, TwoKeysAreNone) {
  auto authorization = withKeys();
  http::Request request;
  request.headers.push_back({"Authorization", "Bearer nk_the-administrators"});
  request.headers.push_back({"authorization", "Bearer nk_the-administrators"});
  EXPECT_FALSE(ask(authorization, request, "metrics:read"));
}

TEST_F(AuthorizationTest, AMissingScopeIsNamed) {
  auto authorization = withKeys();
  EXPECT_EQ(ask(authorization, "Bearer nk_reader", "metrics:read"), kAllowed);
  http::Request request;
  request.headers.push_back({"Authorization", "Bearer nk_reader"});
  const auto answer = ask(authorization, request, "flows:write");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::Forbidden);
  ASSERT_EQ(answer.error().fields().size(), 1U);
  EXPECT_EQ(std::get<std::string>(answer.error().fields()[0].value), "flows:write");
  EXPECT_FALSE(request.principal.has_value());
}

TEST_F(AuthorizationTest, HandlersLearnWhoAsks) {
  auto authorization = withKeys();
  http::Request request;
  request.headers.push_back({"Authorization", "Bearer nk_reader"});
  ASSERT_TRUE(ask(authorization, request, "flows:read"));
  EXPECT_EQ(std::any_cast<Principal>(request.principal).name, "reader");
}

TEST_F(AuthorizationTest, PublicScopesAndNoAuthenticationOpenRoutes) {
  Authorization::Options options;
  options.public_scopes = {"metrics:read"};
  auto authorization = withKeys(options);
  http::Request request;
  EXPECT_TRUE(ask(authorization, request, "metrics:read"));
  EXPECT_FALSE(ask(authorization, request, "flows:read"));

  options = {};
  options.authenticate = false;
  auto open = withKeys(options);
  EXPECT_TRUE(ask(open, request, "flows:read"));
  EXPECT_TRUE(std::any_cast<Principal>(request.principal).has("flows:write"));
}

TEST(KeyHashTest, IsSha256) {
  const KeyHash hash = hashKey("abc");
  EXPECT_EQ(hash[0], 0xba);
  EXPECT_EQ(hash[1], 0x78);
  EXPECT_EQ(hash[31], 0xad);
}

}  // namespace
}  // namespace nimbus::gateway
