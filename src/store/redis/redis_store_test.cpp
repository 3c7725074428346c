// What only a Redis can do to its store: go away, come back, forget scripts, move slots. Each case
// has servers of its own.

#include "store/redis/redis_store.h"

#include "base/testing/manual_clock.h"
#include "redis/slot.h"
#include "redis/testing/servers.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_future.hpp>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace nimbus::store::redis {
namespace {

using namespace std::chrono_literals;
using nimbus::redis::slotOf;
using nimbus::redis::testing::ClusterOfThree;
using nimbus::redis::testing::Server;
using ::testing::HasSubstr;

template <typename T>
T run(Task<T> task) {
  boost::asio::io_context context;
  auto result = boost::asio::co_spawn(context, std::move(task), boost::asio::use_future);
  context.run();
  return result.get();
}

Options optionsFor(const Server& server) {
  Options options;
  options.client.addresses = {server.address()};
  options.client.timeout = Millis(30'000);  // the machine may be busy
  return options;
}

std::unique_ptr<RedisStore> open(Options options) {
  auto opened = RedisStore::open(std::move(options));
  if (!opened) throw std::runtime_error(opened.error().message());
  return *std::move(opened);
}

const Partition kAlice("session", {"cart", "alice"});

Batch put(const std::string& key, const std::string& value) {
  op::Put put;
  put.space = "state";
  put.key = key;
  put.value = value;
  Batch batch;
  batch.operations.emplace_back(std::move(put));
  return batch;
}
Batch add(const std::string& key) {
  op::Add add;
  add.space = "state";
  add.key = key;
  add.delta = 1;
  Batch batch;
  batch.operations.emplace_back(std::move(add));
  return batch;
}

Result<Applied> commit(Store& store, Batch batch, const Partition& partition = kAlice) {
  return run(store.commit(partition, std::nullopt, std::move(batch)).done());
}
Result<std::optional<Record>> get(Store& store, const std::string& key,
                                  const Partition& partition = kAlice) {
  return run(getRecord(store, partition, "state", key));
}
std::string value(Store& store, const std::string& key, const Partition& partition = kAlice) {
  const auto record = get(store, key, partition);
  return !record ? record.error().message() : *record ? (*record)->value : "(nothing)";
}

TEST(RedisStoreTest, SaysWhatADurableCommitSurvives) {
  const Server in_memory;
  EXPECT_EQ(open(optionsFor(in_memory))->describe().durability, Durability::Memory);
  const Server lazy({"--appendonly", "yes", "--appendfsync", "everysec"});
  EXPECT_EQ(open(optionsFor(lazy))->describe().durability, Durability::Memory);
  const Server on_disk({"--appendonly", "yes", "--appendfsync", "always"});
  const auto store = open(optionsFor(on_disk));
  EXPECT_EQ(store->describe().durability, Durability::Disk);
  EXPECT_EQ(store->describe().backend, "redis");
}

TEST(RedisStoreTest, RefusesARedisThatThrowsDataAway) {
  const Server server({"--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru"});
  const auto opened = RedisStore::open(optionsFor(server));
  ASSERT_FALSE(opened);
  EXPECT_THAT(opened.error().message(), HasSubstr("noeviction"));
}

TEST(RedisStoreTest, GoesByTheClockOfRedis) {
  const Server server;
  const auto store = open(optionsFor(server));
  const auto before = std::stoll(server.ask({"TIME"}).items[0].text);
  const auto now =
      std::chrono::duration_cast<std::chrono::seconds>(store->now().time_since_epoch());
  EXPECT_GE(now.count(), before - 1);
  EXPECT_LE(now.count(), std::stoll(server.ask({"TIME"}).items[0].text) + 1);
}

TEST(RedisStoreTest, IsReadableByAPerson) {
  const Server server;
  const auto store = open(optionsFor(server));
  ASSERT_TRUE(commit(*store, put("total", "{\"a\": [1]}")));
  EXPECT_THAT(server.ask({"HGET", "state:{session:cart:alice}", "total"}).text,
              ::testing::MatchesRegex("1 - [0-9]+ \\{\"a\": \\[1\\]\\}"));
}

TEST(RedisStoreTest, NeedsTheRightPassword) {
  const Server server({"--requirepass", "open sesame"});
  Options options = optionsFor(server);
  options.client.timeout = Millis(500);
  options.client.connection.credentials.password = "wrong";
  const auto refused = RedisStore::open(options);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message(), HasSubstr("WRONGPASS"));
  options.client.timeout = Millis(30'000);
  options.client.connection.credentials.password = "open sesame";
  EXPECT_TRUE(commit(*open(options), put("k", "v")));
}

TEST(RedisStoreTest, ComesAsAUserAndUsesItsDatabase) {
  const Server server({"--user", "nimbus", "on", ">secret", "~*", "&*", "+@all"});
  Options options = optionsFor(server);
  options.client.connection.credentials = {"nimbus", "secret"};
  options.client.connection.database = 3;
  const auto store = open(options);
  ASSERT_TRUE(commit(*store, put("k", "v")));
  EXPECT_EQ(server.ask({"DBSIZE"}).integer, 0);
}

TEST(RedisStoreTest, LearnsScriptsAgainThatWereForgotten) {
  const Server server;
  const auto store = open(optionsFor(server));
  for (int i = 0; i < 20; ++i) {
    if (i % 5 == 0) server.ask({"SCRIPT", "FLUSH"});
    ASSERT_TRUE(commit(*store, add("n")));
    ASSERT_TRUE(commit(*store, put("k", std::to_string(i))));
    EXPECT_EQ(value(*store, "n"), std::to_string(i + 1));
  }
}

TEST(RedisStoreTest, GoesOnAfterARestartOfRedis) {
  Server server({"--appendonly", "yes", "--appendfsync", "always"});
  const auto store = open(optionsFor(server));
  for (int restart = 0; restart < 3; ++restart) {
    ASSERT_TRUE(commit(*store, add("n")));
    server.kill();
    server.start();
    EXPECT_EQ(value(*store, "n"), std::to_string(restart + 1));
  }
}

TEST(RedisStoreTest, WhileRedisIsAwayAllFailsInTimeAndRecovers) {
  Server server;
  Options options = optionsFor(server);
  options.client.timeout = Millis(1000);
  const auto store = open(options);
  ASSERT_TRUE(commit(*store, put("k", "v")));
  server.kill();
  const auto begun = std::chrono::steady_clock::now();
  auto pending = store->commit(kAlice, std::nullopt, put("k", "w"));
  const auto read = get(*store, "k");
  const auto committed = run(pending.done());
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 5s);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code(), Code::Unavailable);
  ASSERT_FALSE(committed);
  EXPECT_EQ(committed.error().code(), Code::Unavailable);
  EXPECT_FALSE(run(store->check()));
  server.start();
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!commit(*store, put("k", "x")) && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_EQ(value(*store, "k"), "x");
}

TEST(RedisStoreTest, ACommitWhoseAnswerIsLostMayHaveBeenApplied) {
  Server server;
  Options options = optionsFor(server);
  options.client.timeout = Millis(500);
  const auto store = open(options);
  ASSERT_TRUE(commit(*store, put("k", "v")));
  server.pause();
  const auto lost = commit(*store, add("n"));
  server.resume();
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code(), Code::Unavailable);
  EXPECT_EQ(lost.error().outcome(), Outcome::Unknown);
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  while (!commit(*store, put("k", "w")) && std::chrono::steady_clock::now() < deadline) continue;
  EXPECT_EQ(value(*store, "k"), "w");
}

class Failed final : public CommitListener {
 public:
  void onEnd(const Result<>& durable) override { failed_ = !durable; }
  bool hasFailed() const override { return failed_; }

 private:
  std::atomic<bool> failed_ = false;
};

TEST(RedisStoreTest, WhatBuildsOnARefusedCommitIsRefused) {
  const Server server;
  const auto store = open(optionsFor(server));
  Batch refused = put("k", "one");
  std::get<op::Put>(refused.operations[0]).expected = 9;
  auto first_listener = std::make_shared<Failed>();
  Chained first;
  first.listener = first_listener;
  Chained second;
  second.after = first_listener;
  auto one = store->commit(kAlice, std::move(refused), std::move(first));
  auto two = store->commit(kAlice, put("k", "two"), std::move(second));
  auto three = store->commit(kAlice, std::nullopt, put("other", "three"));
  EXPECT_EQ(run(one.done()).error().code(), Code::VersionConflict);
  EXPECT_EQ(run(two.done()).error().code(), Code::Conflict);
  EXPECT_TRUE(run(three.done()));
  EXPECT_EQ(value(*store, "k"), "(nothing)");
}

TEST(RedisStoreTest, ReplicasMustHaveACommitBeforeItIsDurable) {
  const Server primary;
  auto replica = std::make_unique<Server>(
      std::vector<std::string>{"--replicaof", "127.0.0.1 " + std::to_string(primary.port())});
  Options options = optionsFor(primary);
  options.client.connection.wait_replicas = 1;
  options.client.connection.wait_timeout = Millis(3000);
  const auto store = open(options);
  EXPECT_EQ(store->describe().durability, Durability::Replicated);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (!commit(*store, put("k", "v")) && std::chrono::steady_clock::now() < deadline) continue;
  ASSERT_TRUE(commit(*store, put("k", "v")));
  replica.reset();
  auto pending = store->commit(kAlice, std::nullopt, put("k", "w"));
  EXPECT_TRUE(run(pending.applied()));
  const auto durable = run(pending.durable());
  ASSERT_FALSE(durable);
  EXPECT_EQ(durable.error().outcome(), Outcome::Unknown);
}

TEST(RedisStoreTest, LeavesForeignKeysAlone) {
  const Server server;
  server.ask({"ZADD", "theirs:expiry:{them}", "1", "a"});
  server.ask({"SET", "theirs", "1"});
  const auto store = open(optionsFor(server));
  EXPECT_EQ(run(store->sweep(Millis(1000)))->removed, 0U);
  ASSERT_TRUE(commit(*store, put("k", "v")));
  Batch drop;
  drop.operations.emplace_back(op::DropPartition{});
  ASSERT_TRUE(commit(*store, std::move(drop)));
  server.ask({"DEL", "nimbus:probe"});
  EXPECT_EQ(server.ask({"DBSIZE"}).integer, 2);
}

TEST(RedisStoreTest, AFullRedisRefusesBeforeItWrites) {
  const Server server;
  const auto store = open(optionsFor(server));
  ASSERT_TRUE(commit(*store, put("k", "v")));
  server.ask({"CONFIG", "SET", "maxmemory", "1"});
  const auto refused = commit(*store, put("k", "w"));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::InsufficientStorage);
  EXPECT_EQ(refused.error().outcome(), Outcome::NotApplied);
  EXPECT_EQ(value(*store, "k"), "v");
}

// ---- a cluster

// Moves a slot while others write, as an operator's tool does it.
void moveSlot(ClusterOfThree& cluster, std::uint16_t slot, std::size_t from, std::size_t to) {
  const std::string number = std::to_string(slot);
  Server& source = cluster.node(from);
  Server& target = cluster.node(to);
  target.ask({"CLUSTER", "SETSLOT", number, "IMPORTING", cluster.idOf(from)});
  source.ask({"CLUSTER", "SETSLOT", number, "MIGRATING", cluster.idOf(to)});
  while (true) {
    const auto keys = source.ask({"CLUSTER", "GETKEYSINSLOT", number, "2"});
    if (keys.items.empty()) break;
    for (const auto& key : keys.items) {
      source.ask({"MIGRATE", "127.0.0.1", std::to_string(target.port()), key.text, "0", "5000"});
    }
  }
  // All are told: who goes by hearsay may believe for a while what was true before.
  for (const std::size_t node : {to, from, 3 - to - from}) {
    cluster.node(node).ask({"CLUSTER", "SETSLOT", number, "NODE", cluster.idOf(to)});
  }
}

TEST(RedisClusterStoreTest, SlotsMoveUnderCommits) {
  ClusterOfThree cluster;
  Options options;
  options.client.cluster = true;
  options.client.addresses = {cluster.addresses().front()};
  options.client.timeout = Millis(60'000);
  const auto store = open(options);
  constexpr std::size_t kWriters = 4;
  std::vector<Partition> partitions;
  for (std::size_t i = 0; i < kWriters; ++i) {
    partitions.emplace_back("session",
                            std::initializer_list<std::string_view>{"f", std::to_string(i)});
    ASSERT_TRUE(commit(*store, put("k", "v"), partitions.back()));
  }
  std::atomic<bool> stop = false;
  std::vector<int> added(kWriters);
  std::vector<std::string> failures(kWriters);
  std::vector<std::thread> writers;
  for (std::size_t i = 0; i < kWriters; ++i) {
    writers.emplace_back([&, i] {
      while (!stop && failures[i].empty()) {
        const auto done = commit(*store, add("n"), partitions[i]);
        if (done) {
          ++added[i];
          EXPECT_EQ(done->get<Added>(0).value, added[i]) << "in order, none twice, none lost";
        } else {
          failures[i] = done.error().message();
        }
      }
    });
  }
  std::vector<std::size_t> owners;
  for (const Partition& partition : partitions) {
    owners.push_back(cluster.ownerOf(slotOf(partition.name())));
  }
  for (int round = 0; round < 5; ++round) {
    for (std::size_t i = 0; i < kWriters; ++i) {
      const std::size_t from = std::exchange(owners[i], (owners[i] + 1) % 3);
      moveSlot(cluster, slotOf(partitions[i].name()), from, owners[i]);
    }
  }
  stop = true;
  for (std::thread& writer : writers) writer.join();
  EXPECT_THAT(failures, ::testing::Each(""));
  for (std::size_t i = 0; i < kWriters; ++i) {
    EXPECT_GT(added[i], 0);
    EXPECT_EQ(value(*store, "n", partitions[i]), std::to_string(added[i]));
    EXPECT_EQ(value(*store, "k", partitions[i]), "v");
  }
}

TEST(RedisClusterStoreTest, ScriptsAreKnownToEveryNode) {
  ClusterOfThree cluster;
  const auto alone = RedisStore::open(optionsFor(cluster.node(0)));
  ASSERT_FALSE(alone);
  EXPECT_THAT(alone.error().message(), HasSubstr("redis+cluster://"));
  Options options;
  options.client.cluster = true;
  options.client.addresses = cluster.addresses();
  options.client.timeout = Millis(60'000);
  const auto store = open(options);
  for (int i = 0; i < 12; ++i) {
    if (i % 4 == 0) cluster.node(static_cast<std::size_t>(i / 4)).ask({"SCRIPT", "FLUSH"});
    const Partition partition("session", {"f", std::to_string(i)});
    ASSERT_TRUE(commit(*store, add("n"), partition));
    EXPECT_EQ(value(*store, "n", partition), "1");
  }
}

}  // namespace
}  // namespace nimbus::store::redis
