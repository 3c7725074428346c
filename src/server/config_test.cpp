#include "server/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace nimbus::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() { declareSettings(settings_, config_); }

  // Everything that is wrong with the defaults after these assignments.
  std::vector<std::string> check(std::vector<std::pair<std::string, std::string>> values) {
    Settings::Sources sources;
    for (auto& [name, value] : values)
      sources.assignments.push_back({name, value, "--set " + name});
    Settings::Problems problems = settings_.load(sources);
    for (auto& problem : crossCheck(config_, settings_)) problems.push_back(std::move(problem));
    std::vector<std::string> texts;
    for (const auto& problem : problems) texts.push_back(problem.text());
    return texts;
  }

  Config config_;
  Settings settings_;
};

TEST_F(ConfigTest, TheDefaultsAreSoundAndAsPromised) {
  EXPECT_THAT(check({}), IsEmpty());
  EXPECT_EQ(config_.server.listen, "127.0.0.1:8787");
  EXPECT_EQ(config_.server.max_body_bytes, 1048576U);
  EXPECT_EQ(config_.server.drain, Millis(10'000));
  EXPECT_EQ(config_.state.default_ttl, Millis(3'600'000));
  EXPECT_EQ(config_.state.max_state_size, 65536U);
  EXPECT_EQ(config_.state.max_keys, 100);
}

TEST_F(ConfigTest, EveryNameTheContractKeepsIsKnown) {
  EXPECT_THAT(check({{"state.enabled", "true"},
                     {"state.redis.addr", "h:6379"},
                     {"state.redis.password", "p"},
                     {"state.redis.db", "1"},
                     {"state.defaults.default_ttl", "60"},
                     {"state.defaults.max_state_size", "1000"},
                     {"state.defaults.max_keys", "5"},
                     {"state.session.affinity_enabled", "false"},
                     {"state.session.session_timeout", "0.5"},
                     {"state.session.cache_ttl", "1"},
                     {"gateway.instance.id", "node-1"},
                     {"gateway.store.backend", "redis"},
                     {"gateway.store.sqlite.path", "/x.db"},
                     {"gateway.store.sqlite.walMode", "false"},
                     {"gateway.store.redis.url", "redis://h"},
                     {"gateway.store.redis.cluster", "false"},
                     {"gateway.store.redis.sentinel", "primary"},
                     {"gateway.store.redis.tls", "true"},
                     {"gateway.store.redis.username", "u"},
                     {"gateway.store.redis.password_file", "/p"},
                     {"gateway.store.redis.wait_replicas", "1"},
                     {"store.sqlite.synchronous", "normal"}}),
              IsEmpty());
}

TEST_F(ConfigTest, WhatIsShownCanBeLoaded) {
  const std::string path =
      ::testing::TempDir() + "config_test_" + std::to_string(::getpid()) + ".yaml";
  std::ofstream(path) << settings_.show();
  EXPECT_THAT(settings_.load({.file = path, .environment = {}, .assignments = {}}), IsEmpty());
  std::filesystem::remove(path);
}

TEST_F(ConfigTest, ACertificateNeedsItsKey) {
  EXPECT_THAT(check({{"server.tls.cert_file", "c.pem"}}),
              ElementsAre(AllOf(HasSubstr("--set server.tls.cert_file"),
                                HasSubstr("needs server.tls.key_file"))));
}

TEST_F(ConfigTest, AKeyNeedsItsCertificate) {
  EXPECT_THAT(check({{"server.tls.key_file", "k.pem"}}),
              ElementsAre(HasSubstr("needs server.tls.cert_file")));
}

TEST_F(ConfigTest, RedisNeedsAnAddress) {
  EXPECT_THAT(check({{"gateway.store.backend", "redis"}}),
              ElementsAre(HasSubstr("gateway.store.redis.url")));
}

TEST_F(ConfigTest, AddressesAndNamesMustHaveTheirForm) {
  EXPECT_THAT(
      check({{"server.listen", "nowhere"}, {"gateway.instance.id", "a b"}, {"server.data", ""}}),
      ElementsAre(HasSubstr("server.listen"), HasSubstr("server.data"),
                  HasSubstr("gateway.instance.id")));
}

TEST_F(ConfigTest, LimitsAreLimits) {
  EXPECT_THAT(check({{"server.threads", "1000000000"}, {"server.max_connections", "-1"}}),
              ElementsAre(HasSubstr("0 to 1024"), HasSubstr("1 to 1000000")));
}

}  // namespace
}  // namespace nimbus::server
