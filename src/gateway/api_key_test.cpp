#include "gateway/api_key.h"

#include "base/time_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace nimbus::gateway {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr Timestamp kNow{Millis(1'700'000'000'000)};

TEST(ApiKeyTest, AKeyTellsItsIdAndNothingElseDoes) {
  SystemRandom random;
  const std::string id = makeKeyId(random);
  const std::string key = makeKey(id, random);
  EXPECT_THAT(key, ::testing::StartsWith("nk_" + id + "_"));
  ASSERT_TRUE(keyIdOf(key));
  EXPECT_EQ(*keyIdOf(key), id);
  EXPECT_NE(makeKey(id, random), key);

  std::string upper = key;
  upper.back() = 'A';
  for (const std::string& other :
       {std::string(), std::string("nk_"), key + "0", key.substr(1), key.substr(0, key.size() - 1),
        upper, "nk_" + std::string(67, '0'), "nk_" + std::string(50, '0'), " " + key}) {
    EXPECT_FALSE(keyIdOf(other)) << other;
  }
}

TEST(ApiKeyTest, SecretsAreLeftOutOfWhatIsRecorded) {
  SystemRandom random;
  const std::string id = makeKeyId(random);
  const std::string key = makeKey(id, random);
  for (const std::string& text : {key, "/a/" + key + "/b", key + key, "nk_nk_" + key,
                                  "nk_" + std::string(50, 'x'), key + "," + key}) {
    const std::string safe = withoutSecrets(text);
    EXPECT_THAT(safe, Not(HasSubstr(key.substr(20)))) << safe;
    EXPECT_THAT(safe, Not(HasSubstr("xxxx"))) << safe;
  }
  EXPECT_EQ(withoutSecrets("/api/v1/keys/" + id), "/api/v1/keys/" + id);
  EXPECT_EQ(withoutSecrets("/functions/nk_cart/state/nk_"), "/functions/nk_cart/state/nk_");
  EXPECT_EQ(withoutSecrets("/a/" + key + "/b"), "/a/nk_.../b");
}

TEST(ApiKeyTest, ARequestMayHaveEverything) {
  const auto request = parseKeyRequest(
      R"({"name":"shop","scopes":["invoke:cart","sessions:read","sessions:read"],)"
      R"("expires_at":"2030-01-01T00:00:00Z","session_prefix":"eu:","rate_limit":5})",
      kNow);
  ASSERT_TRUE(request) << request.error().message();
  EXPECT_EQ(request->name, "shop");
  EXPECT_THAT(request->scopes, ElementsAre("invoke:cart", "sessions:read"));
  EXPECT_EQ(request->expires_at, *parseTime("2030-01-01T00:00:00Z"));
  EXPECT_EQ(request->session_prefix, "eu:");
  EXPECT_EQ(request->rate_limit, RateLimit::perMinute(5));
}

TEST(ApiKeyTest, WhatIsLeftOutOrNullIsAbsent) {
  const auto request = parseKeyRequest(R"({"name":"a","scopes":["admin"],"expires_at":null,)"
                                       R"("session_prefix":null,"rate_limit":null})",
                                       kNow);
  ASSERT_TRUE(request);
  EXPECT_FALSE(request->expires_at || request->session_prefix || request->rate_limit);
}

TEST(ApiKeyTest, LimitsCanBeSaidInFull) {
  const auto limit = [](const std::string& text) {
    const auto request =
        parseKeyRequest(R"({"name":"a","scopes":["admin"],"rate_limit":)" + text + "}", kNow);
    return request ? request->rate_limit : std::nullopt;
  };
  EXPECT_EQ(limit(R"({"requests":100,"window_s":10,"burst":20})"),
            (RateLimit{100, Millis(10'000), 20}));
  EXPECT_EQ(limit(R"({"requests":7})"), RateLimit::perMinute(7));
  EXPECT_EQ(limit("0")->requests, 0U);
  for (const char* wrong :
       {"-1", "1.5", "\"5\"", "[]", "true", R"({"requests":-1})", R"({"per":5})",
        R"({"requests":5,"window_s":0})", R"({"requests":5,"burst":0})", "1000001"}) {
    EXPECT_FALSE(limit(wrong)) << wrong;
  }
}

TEST(ApiKeyTest, WhatIsWrongIsNamed) {
  const auto whatIsWrong = [](const std::string& body) -> std::string {
    const auto request = parseKeyRequest(body, kNow);
    if (request) return "nothing";
    EXPECT_EQ(request.error().code(), Code::InvalidArgument) << body;
    for (const Error::Field& field : request.error().fields()) {
      if (field.name == "field") return std::get<std::string>(field.value);
    }
    return "no field";
  };
  EXPECT_EQ(whatIsWrong(R"({"scopes":["admin"]})"), "name");
  EXPECT_EQ(whatIsWrong(R"({"name":"","scopes":["admin"]})"), "name");
  EXPECT_EQ(whatIsWrong(R"({"name":5,"scopes":["admin"]})"), "name");
  EXPECT_EQ(whatIsWrong(R"({"name":"a"})"), "scopes");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":[]})"), "scopes");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":"admin"})"), "scopes");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["root"]})"), "scopes");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":[1]})"), "scopes");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"role":"x"})"), "role");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"expires_at":"soon"})"), "expires_at");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"expires_at":1})"), "expires_at");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"expires_at":"2000-01-01T00:00:00Z"})"),
            "expires_at");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"session_prefix":""})"),
            "session_prefix");
  EXPECT_EQ(whatIsWrong(R"({"name":"a","scopes":["admin"],"rate_limit":"x"})"), "rate_limit");
}

TEST(ApiKeyTest, WhatIsKeptComesBackAndWhatIsShownHoldsNoSecret) {
  auto principal = std::make_shared<Principal>();
  principal->id = "abc";
  principal->name = "a \"name\"";
  principal->scopes = {"invoke", "metrics:read"};
  principal->session_prefix = "x";
  principal->rate_limit = {100, Millis(10'000), 20};
  ApiKey key;
  key.principal = principal;
  key.hash = hashKey("nk_whatever");
  key.own_rate_limit = principal->rate_limit;
  key.expires_at = kNow + Millis(5);
  key.created_at = kNow;

  const std::string record = keyRecord(key);
  const auto back = parseKeyRecord("abc", record, RateLimit::perMinute(600));
  ASSERT_TRUE(back) << back.error().message();
  EXPECT_EQ(keyRecord(*back), record);
  EXPECT_TRUE(isSameHash(back->hash, key.hash));
  EXPECT_EQ(back->principal->rate_limit, principal->rate_limit);
  EXPECT_EQ(back->expires_at, key.expires_at);

  const std::string shown = keyText(key);
  EXPECT_THAT(shown, Not(HasSubstr("hash")));
  EXPECT_THAT(shown, Not(HasSubstr("\"key\"")));
  EXPECT_THAT(shown, HasSubstr(R"("rate_limit":{"requests":100,"window_s":10,"burst":20})"));
  EXPECT_THAT(keyText(key, "nk_x"), HasSubstr(R"("key":"nk_x")"));
}

TEST(ApiKeyTest, AKeyWithoutALimitOfItsOwnFollowsTheDefault) {
  auto principal = std::make_shared<Principal>();
  principal->id = "abc";
  ApiKey key;
  key.principal = principal;
  const auto back = parseKeyRecord("abc", keyRecord(key), RateLimit::perMinute(30));
  ASSERT_TRUE(back);
  EXPECT_EQ(back->principal->rate_limit, RateLimit::perMinute(30));
  EXPECT_FALSE(back->own_rate_limit);
}

TEST(ApiKeyTest, ARecordThatIsNoKeyIsAnError) {
  for (const char* record : {"", "{}", "[]", R"({"hash":"00","created_at":"2026-01-01T00:00:00Z"})",
                             R"({"hash":"zz"})"}) {
    EXPECT_FALSE(parseKeyRecord("abc", record, {})) << record;
  }
}

TEST(KeyHashTest, IsSha256) {
  const KeyHash hash = hashKey("abc");
  EXPECT_EQ(hash[0], 0xba);
  EXPECT_EQ(hash[1], 0x78);
  EXPECT_EQ(hash[31], 0xad);
}

}  // namespace
}  // namespace nimbus::gateway
