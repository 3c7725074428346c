#include "gateway/peer_principal.h"

#include "gateway/testing/run.h"

#include <gtest/gtest.h>

#include <string>

namespace nimbus::gateway {
namespace {

Principal someone() {
  Principal principal;
  principal.id = "k-17";
  principal.name = "Zoë \"of\"\r\n100%";
  principal.scopes = {"invoke:cart", "sessions:read"};
  principal.session_prefix = "zoë-";
  return principal;
}

TEST(PeerPrincipal, ComesAcrossWhateverItsNameHolds) {
  const std::string text = principalText(someone());
  for (const char byte : text) EXPECT_TRUE(byte > ' ' && byte <= '~') << text;
  const auto read = parsePrincipal(text);
  ASSERT_TRUE(read);
  EXPECT_EQ((*read)->id, "k-17");
  EXPECT_EQ((*read)->name, someone().name);
  EXPECT_EQ((*read)->scopes, someone().scopes);
  EXPECT_EQ((*read)->session_prefix, "zoë-");
  EXPECT_TRUE((*read)->is_forwarded);
  EXPECT_FALSE((*read)->is_device);
}

class PeerAuthorizerTest : public ::testing::Test {
 protected:
  Result<> authorize(std::string_view secret, std::string_view principal) {
    request_.reset();
    request_.id = "own";
    request_.headers = {{kPeerSecret, secret}, {kPeerPrincipal, principal}, {kPeerRequest, "r1"}};
    return run(authorizer_.authorize(request_, route_));
  }

  std::string secret_ = "0123456789";
  PeerAuthorizer authorizer_{secret_};
  http::Request request_;
  http::Route route_;
};

TEST_F(PeerAuthorizerTest, WhoHasTheSecretIsWhoItSays) {
  const std::string text = principalText(someone());
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(authorize(secret_, text));
    EXPECT_EQ(principalOf(request_).id, "k-17");
    EXPECT_EQ(request_.id, "r1");
  }
}

TEST_F(PeerAuthorizerTest, WhoHasItNotIsNobody) {
  const std::string text = principalText(someone());
  for (const std::string_view secret : {"", "0123456788", "01234567890", "012345678"}) {
    const auto refused = authorize(secret, text);
    ASSERT_FALSE(refused) << secret;
    EXPECT_EQ(refused.error().code(), Code::Unauthenticated);
    EXPECT_EQ(request_.principal, nullptr);
    EXPECT_EQ(request_.id, "own");
  }
}

TEST_F(PeerAuthorizerTest, BeforeThereIsASecretNobodyHasIt) {
  secret_.clear();
  EXPECT_FALSE(authorize("", principalText(someone())));
}

TEST_F(PeerAuthorizerTest, ANodeMustSayWhoAsks) {
  EXPECT_FALSE(authorize(secret_, ""));
  EXPECT_FALSE(authorize(secret_, "%7B%7D"));
}

}  // namespace
}  // namespace nimbus::gateway
