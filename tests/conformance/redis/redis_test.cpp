// The suites on a real redis-server, and on a real Redis Cluster of three nodes.

#include "../suites.h"
#include "redis/testing/servers.h"
#include "store/redis/redis_store.h"

namespace nimbus::store::conformance {
namespace {

using nimbus::redis::testing::ClusterOfThree;
using nimbus::redis::testing::Server;

// One server for all cases: each begins with an empty one.
Server& server() {
  static Server server;
  return server;
}
ClusterOfThree& cluster() {
  static ClusterOfThree cluster;
  return cluster;
}

class RedisUnderTest final : public StoreUnderTest {
 public:
  RedisUnderTest(const Clock& clock, bool clustered) : clock_(clock), clustered_(clustered) {
    if (clustered) {
      for (std::size_t i = 0; i < 3; ++i) cluster().node(i).ask({"FLUSHALL"});
    } else {
      server().ask({"FLUSHALL"});
    }
    store_ = openStore();
  }

  Store& store() override { return *store_; }
  bool reopen() override {
    store_.reset();
    store_ = openStore();
    return true;
  }
  std::unique_ptr<Store> openSecond() override { return openStore(); }

 private:
  std::unique_ptr<redis::RedisStore> openStore() {
    redis::Options options;
    options.clock = &clock_;
    options.client.cluster = clustered_;
    options.client.addresses =
        clustered_ ? std::vector{cluster().addresses().front()} : std::vector{server().address()};
    options.client.timeout = Millis(60'000);  // the machine may be busy
    auto opened = redis::RedisStore::open(std::move(options));
    NIMBUS_ASSERT(opened, "a server that was just started can be used");
    return *std::move(opened);
  }

  const Clock& clock_;
  const bool clustered_;
  std::unique_ptr<redis::RedisStore> store_;
};

Backend redisBackend(const char* name, bool clustered) {
  return {name, [clustered](const Clock& clock) {
            return std::make_unique<RedisUnderTest>(clock, clustered);
          }};
}

NIMBUS_CONFORMANCE(Redis, redisBackend("redis", false));
NIMBUS_CONFORMANCE(RedisCluster, redisBackend("redis cluster", true));

}  // namespace
}  // namespace nimbus::store::conformance
