// Random histories of event logs on a real redis-server, and on a real Redis Cluster of three
// nodes.

#include "base/testing/manual_clock.h"
#include "events/testing/log_model.h"
#include "redis/testing/servers.h"
#include "store/redis/redis_store.h"

#include <gtest/gtest.h>

namespace nimbus::events {
namespace {

std::unique_ptr<store::redis::RedisStore> openStore(const Clock& clock, redis::Address address,
                                                    bool clustered) {
  store::redis::Options options;
  options.clock = &clock;
  options.client.cluster = clustered;
  options.client.addresses = {std::move(address)};
  options.client.timeout = Millis(60'000);  // the machine may be busy
  auto opened = store::redis::RedisStore::open(std::move(options));
  return opened ? *std::move(opened) : nullptr;
}

TEST(RedisEvents, HistoriesOnOneServer) {
  redis::testing::Server server;
  ManualClock clock;
  const auto store = openStore(clock, server.address(), false);
  ASSERT_NE(store, nullptr);
  playMany(*store, clock, 6);
}

TEST(RedisClusterEvents, HistoriesOnACluster) {
  redis::testing::ClusterOfThree cluster;
  ManualClock clock;
  const auto store = openStore(clock, cluster.addresses().front(), true);
  ASSERT_NE(store, nullptr);
  playMany(*store, clock, 6);
}

}  // namespace
}  // namespace nimbus::events
