#include "gateway/authorization.h"

#include "base/testing/manual_clock.h"
#include "base/testing/manual_steady_clock.h"
#include "gateway/audit.h"
#include "gateway/key_ring.h"
#include "gateway/rate_limits.h"
#include "gateway/testing/run.h"
#include "store/memory/memory_store.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace nimbus::gateway {
namespace {

class AuthorizationTest : public ::testing::Test {
 protected:
  static constexpr std::string_view kKey = "nk_the-administrators";
  static constexpr Code kAllowed{};  // no route of ours answers with the first code

  // What a request with these Authorization fields gets from a route of that scope.
  static Result<> ask(Authorization& authorization, http::Request& request, std::string scope) {
    http::Route route;
    route.pattern = "/api/v1/x";
    route.scope = std::move(scope);
    return run(authorization.authorize(request, route));
  }
  static Code ask(Authorization& authorization, std::string_view field, std::string scope) {
    http::Request request;
    request.id = "r1";
    request.headers.push_back({"Authorization", field});
    const auto answer = ask(authorization, request, std::move(scope));
    return answer ? kAllowed : answer.error().code();
  }

  Authorization withKeys(Authorization::Options options = {}) {
    Authorization authorization(std::move(options), {ring_, limits_, audit_, store_});
    authorization.addAdministrator(hashKey(kKey));
    return authorization;
  }
  // An API key with these scopes, in plain text.
  std::string makeKeyWith(std::set<std::string, std::less<>> scopes,
                          std::optional<Timestamp> expires_at = {}) {
    auto principal = std::make_shared<Principal>();
    principal->id = makeKeyId(random_);
    principal->name = "reader";
    principal->scopes = std::move(scopes);
    const std::string plain = makeKey(principal->id, random_);
    ApiKey key;
    key.principal = std::move(principal);
    key.hash = hashKey(plain);
    key.own_rate_limit = RateLimit();
    key.expires_at = expires_at;
    EXPECT_TRUE(run(ring_.add(key)));
    return plain;
  }
  static std::string bearer(const std::string& key) { return "Bearer " + key; }

  ManualClock clock_;
  ManualSteadyClock steady_;
  SystemRandom random_;
  boost::asio::io_context io_;
  store::memory::MemoryStore store_{clock_};
  KeyRing ring_{store_, steady_, RateLimit::perMinute(600)};
  RateLimits limits_{store_, steady_, {}};
  AuditLog log_{store_, random_, {}};
  Audit audit_{log_, steady_, io_.get_executor()};
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

TEST_F(AuthorizationTest, AnApiKeyIsGoodOnlyWithItsWholeSecret) {
  auto authorization = withKeys();
  const std::string key = makeKeyWith({"metrics:read"});
  EXPECT_EQ(ask(authorization, bearer(key), "metrics:read"), kAllowed);
  std::string wrong = key;
  wrong.back() = wrong.back() == 'a' ? 'b' : 'a';
  EXPECT_EQ(ask(authorization, bearer(wrong), "metrics:read"), Code::Unauthenticated);
  const std::string id = std::string(*keyIdOf(key));
  EXPECT_EQ(ask(authorization, bearer(makeKey(id, random_)), "metrics:read"),
            Code::Unauthenticated);
  EXPECT_EQ(ask(authorization, bearer(makeKey(makeKeyId(random_), random_)), "metrics:read"),
            Code::Unauthenticated);
}

TEST_F(AuthorizationTest, AnExpiredKeyIsRefusedToTheMillisecond) {
  auto authorization = withKeys();
  const std::string key = makeKeyWith({"metrics:read"}, clock_.now() + Millis(10));
  clock_.advance(Millis(9));
  EXPECT_EQ(ask(authorization, bearer(key), "metrics:read"), kAllowed);
  clock_.advance(Millis(1));
  EXPECT_EQ(ask(authorization, bearer(key), "metrics:read"), Code::Unauthenticated);
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
  const std::string field = bearer(makeKeyWith({"metrics:read", "flows:read"}));
  EXPECT_EQ(ask(authorization, field, "metrics:read"), kAllowed);
  http::Request request;
  request.id = "r1";
  request.headers.push_back({"Authorization", field});
  const auto answer = ask(authorization, request, "flows:write");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code(), Code::Forbidden);
  ASSERT_EQ(answer.error().fields().size(), 1U);
  EXPECT_EQ(std::get<std::string>(answer.error().fields()[0].value), "flows:write");
  EXPECT_EQ(request.principal, nullptr);
}

TEST_F(AuthorizationTest, HandlersLearnWhoAsks) {
  auto authorization = withKeys();
  http::Request request;
  const std::string field = bearer(makeKeyWith({"flows:read"}));
  request.headers.push_back({"Authorization", field});
  ASSERT_TRUE(ask(authorization, request, "flows:read"));
  EXPECT_EQ(principalOf(request).name, "reader");
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
  EXPECT_TRUE(principalOf(request).has("flows:write"));
}

TEST_F(AuthorizationTest, RefusalsAreRecordedWithWhatIsKnownOfTheCaller) {
  auto authorization = withKeys();
  const std::string key = makeKeyWith({"flows:read"});
  EXPECT_EQ(ask(authorization, bearer(key), "admin"), Code::Forbidden);
  const auto page = run(log_.list({}, "", 10));
  ASSERT_TRUE(page);
  ASSERT_EQ(page->items.size(), 1U);
  EXPECT_NE(page->items[0].find(*keyIdOf(key)), std::string::npos);
  EXPECT_EQ(page->items[0].find(key.substr(20)), std::string::npos);
}

}  // namespace
}  // namespace nimbus::gateway
