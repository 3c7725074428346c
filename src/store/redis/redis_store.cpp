#include "store/redis/redis_store.h"

#include "base/log.h"
#include "base/one_shot.h"
#include "base/task_group.h"
#include "redis/slot.h"
#include "store/redis/commits.h"
#include "store/redis/encoding.h"
#include "store/redis/layout.h"
#include "store/redis/scripts.h"
#include "store/rules.h"
#include "store/watchers.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace nimbus::store::redis {

namespace asio = boost::asio;
using nimbus::redis::Address;
using nimbus::redis::Command;
using nimbus::redis::slotOf;
using nimbus::redis::Value;
using Steady = std::chrono::steady_clock;

namespace {

// A script, or another command, that a task waits for.
class Call final : public nimbus::redis::Request {
 public:
  void onAnswer(Result<Value> answer) override { done.set(std::move(answer)); }

  OneShot<Result<Value>> done;
};

std::int64_t toNumber(std::string_view text) {
  std::int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// "redis_version:7.0.15" in what INFO says.
Result<> checkVersion(const std::string& info, const Address& node) {
  constexpr std::string_view kName = "redis_version:";
  const std::size_t at = info.find(kName);
  if (at == std::string::npos) return {};
  if (toNumber(std::string_view(info).substr(at + kName.size())) >= 7) return {};
  return Error(Code::InvalidArgument, fmt::format("Redis at {} is older than 7.0", toString(node)));
}

}  // namespace

// What runs on the store's thread.
class RedisStore::Core final : public nimbus::redis::Client::Listener,
                               public std::enable_shared_from_this<Core> {
 public:
  explicit Core(Options options)
      : options_(std::move(options)),
        work_(asio::make_work_guard(context_)),
        tasks_(context_.get_executor(), "redis store"),
        client_(nimbus::redis::Client::make(context_.get_executor(), options_.client)),
        commits_(*client_, context_.get_executor(), options_) {
    client_->setListener(this);
    thread_ = std::thread([this] { context_.run(); });
  }

  // Everything that waits hears that it is over.
  void stop() {
    {
      const std::lock_guard lock(watch_mutex_);
      stopped_ = true;
    }
    asio::co_spawn(context_, stopAll(), asio::use_future).get();
    work_.reset();
    thread_.join();
  }

  Result<> prepare() { return asio::co_spawn(context_, prepareAll(), asio::use_future).get(); }

  Commits& commits() { return commits_; }
  Durability durability() const { return durability_; }

  Timestamp now() const {
    if (options_.clock != nullptr) return options_.clock->now();
    const auto since =
        std::chrono::duration_cast<std::chrono::microseconds>(Steady::now().time_since_epoch());
    return Timestamp(std::chrono::floor<Millis>(since + std::chrono::microseconds(offset_.load())));
  }

  // Any thread.
  Task<Result<Value>> call(Encoded encoded, std::string_view tag) {
    return callWhere(std::move(encoded), slotOf(tag));
  }

  Task<Result<Swept>> sweep(Millis budget);

  Task<Result<>> check() {
    Command probe("SET");
    probe.add("nimbus:probe").add(timeText(now())).add("PX").add("60000");
    const auto answer = co_await client_->execute(probe, "nimbus:probe");
    if (!answer) co_return answer.error();
    co_return Result<>();
  }

  std::unique_ptr<Watch> watch(const Partition& partition, std::function<void()> changed);

 private:
  class Watching;
  // Where a sweep has come to.
  struct Place {
    bool begun = false;
    std::vector<Address> nodes;  // still to be looked at; the last one is
    std::string cursor = "0";
    std::vector<std::string> keys;  // found, and not yet swept
  };

  Task<> stopAll() {
    tasks_.cancel();
    co_await client_->stop();
    co_await tasks_.join();
  }

  Task<Result<>> prepareAll() {
    client_->start();
    // A cluster's map is known when any command has been answered.
    NIMBUS_CO_CHECK(co_await client_->execute(Command("PING")));
    durability_ = Durability::Disk;
    for (const Address& node : client_->primaries()) NIMBUS_CO_CHECK(co_await look(node));
    if (options_.client.connection.wait_replicas > 0) durability_ = Durability::Replicated;
    NIMBUS_CO_CHECK(co_await measure());
    tasks_.add(keepTime());
    co_return Result<>();
  }

  Result<> checkMode(const std::string& info, const Address& node) const {
    const bool clustered = info.find("redis_mode:cluster") != std::string::npos;
    if (!clustered || options_.client.cluster) return {};
    return Error(Code::InvalidArgument,
                 fmt::format("Redis at {} is a node of a Redis Cluster; say redis+cluster://",
                             toString(node)));
  }

  // What one server is set up for. A server that tells nobody counts as the weakest.
  Task<Result<>> look(Address node) {
    const auto info = co_await client_->executeOn(node, Command("INFO").add("server"));
    if (info) {
      NIMBUS_CO_CHECK(checkVersion(info->text, node));
      NIMBUS_CO_CHECK(checkMode(info->text, node));
    }
    Command get("CONFIG");
    get.add("GET").add("appendonly").add("appendfsync").add("maxmemory-policy");
    const auto answer = co_await client_->executeOn(node, get);
    if (!answer) {
      if (answer.error().code() == Code::Unavailable) co_return answer.error();
      log::warn("Redis does not tell how it is set up; commits count as kept in memory only",
                {{"address", toString(node)}, {"reason", answer.error().message()}});
      durability_ = Durability::Memory;
      co_return Result<>();
    }
    std::map<std::string, std::string> found;
    for (std::size_t i = 0; i + 1 < answer->items.size(); i += 2) {
      found[answer->items[i].text] = answer->items[i + 1].text;
    }
    const std::string& policy = found["maxmemory-policy"];
    if (!policy.empty() && policy != "noeviction") {
      co_return Error(Code::InvalidArgument,
                      fmt::format("Redis at {} throws data away when its memory is full "
                                  "(maxmemory-policy {}); set it to noeviction",
                                  toString(node), policy));
    }
    const bool on_disk = found["appendonly"] == "yes" && found["appendfsync"] == "always";
    if (!on_disk) durability_ = Durability::Memory;
    co_return Result<>();
  }

  // How far the clock of Redis is from ours. Of a cluster the node that has this key is asked: one
  // for all, as every client of it does.
  Task<Result<>> measure() {
    if (options_.clock != nullptr) co_return Result<>();
    const auto before = Steady::now();
    const auto answer = co_await client_->execute(Command("TIME"), "nimbus:clock");
    if (!answer) co_return answer.error();
    const auto after = Steady::now();
    if (answer->items.size() != 2) co_return Error(Code::Internal, "Redis does not know the time");
    const std::int64_t theirs =
        toNumber(answer->items[0].text) * 1'000'000 + toNumber(answer->items[1].text);
    const auto middle = before + (after - before) / 2;
    const auto ours =
        std::chrono::duration_cast<std::chrono::microseconds>(middle.time_since_epoch());
    offset_ = theirs - ours.count();
    co_return Result<>();
  }

  Task<> keepTime() {
    constexpr Millis kEvery{5000};
    asio::steady_timer timer(context_);
    while (true) {
      timer.expires_after(kEvery);
      co_await timer.async_wait(asio::use_awaitable);
      static_cast<void>(co_await measure());
    }
  }

  Task<Result<Value>> callWhere(Encoded encoded, std::uint16_t slot) {
    auto request = std::make_shared<Call>();
    request->script = encoded.script;
    request->bytes = std::move(encoded.bytes);
    request->slot = slot;
    request->deadline = client_->deadline();
    request->repeatable = true;
    asio::post(context_, [this, request] { client_->send(request); });
    co_return co_await request->done.wait(request);
  }

  Task<Result<bool>> findMore(Place& place);
  Task<Result<Swept>> sweepKey(std::string key);

  void onMessage(const std::string& channel) override { watchers_.notify(partitionOf(channel)); }
  void onSubscribed(const std::string& channel) override { watchers_.notify(partitionOf(channel)); }

  const Options options_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  TaskGroup tasks_;
  std::unique_ptr<nimbus::redis::Client> client_;
  Commits commits_;
  Durability durability_ = Durability::Memory;
  std::atomic<std::int64_t> offset_ = 0;  // of the clock of Redis from our steady one, us
  Watchers watchers_;
  std::mutex watch_mutex_;
  std::map<std::string, int> watched_;  // by partition, how often; guarded by watch_mutex_
  bool stopped_ = false;                // guarded by watch_mutex_
  std::mutex sweep_mutex_;
  Place place_;  // guarded by sweep_mutex_
  std::thread thread_;
};

// ---- watching

class RedisStore::Core::Watching final : public Watch {
 public:
  Watching(std::shared_ptr<Core> core, std::string partition, std::unique_ptr<Watch> watch)
      : core_(std::move(core)), partition_(std::move(partition)), watch_(std::move(watch)) {
    change(1);
  }
  ~Watching() override {
    watch_.reset();
    change(-1);
  }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  void change(int by) {
    const std::lock_guard lock(core_->watch_mutex_);
    const int before = core_->watched_[partition_];
    const int after = before + by;
    core_->watched_[partition_] = after;
    if (after == 0) core_->watched_.erase(partition_);
    if (core_->stopped_ || (before != 0 && after != 0)) return;
    asio::post(core_->context_, [core = core_.get(), channel = metaKey(partition_), after] {
      if (after > 0) {
        core->client_->subscribe(channel);
      } else {
        core->client_->unsubscribe(channel);
      }
    });
  }

  const std::shared_ptr<Core> core_;
  const std::string partition_;
  std::unique_ptr<Watch> watch_;
};

std::unique_ptr<Watch> RedisStore::Core::watch(const Partition& partition,
                                               std::function<void()> changed) {
  return std::make_unique<Watching>(shared_from_this(), partition.name(),
                                    watchers_.add(partition, std::move(changed)));
}

// ---- sweeping: whatever matches, node by node, some keys at a time

// False if there is nothing more.
Task<Result<bool>> RedisStore::Core::findMore(Place& place) {
  if (!place.begun) {
    place.begun = true;
    place.nodes = co_await client_->findPrimaries();
  }
  if (place.nodes.empty()) co_return false;
  Command scan("SCAN");
  scan.add(place.cursor).add("MATCH").add(kExpiryPattern).add("COUNT").add("1000");
  NIMBUS_CO_TRY(auto answer, co_await client_->executeOn(place.nodes.back(), scan));
  if (answer.items.size() != 2) co_return Error(Code::Internal, "SCAN answered something else");
  place.cursor = answer.items[0].text;
  for (Value& key : answer.items[1].items) place.keys.push_back(std::move(key.text));
  if (place.cursor == "0") place.nodes.pop_back();
  co_return true;
}

Task<Result<Swept>> RedisStore::Core::sweepKey(std::string key) {
  constexpr std::int64_t kSlice = 256;
  ExpiryKey parsed;
  if (!parseExpiryKey(key, parsed)) co_return Swept{};
  const auto& script = sweepScript();
  Command command("EVALSHA");
  command.add(script.sha1());
  if (parsed.space.empty()) {
    command.add("2").add(metaKey(parsed.partition)).add(key);
  } else {
    command.add("4").add(metaKey(parsed.partition));
    for (const std::string& name : keysOf(Kind::Space, parsed.space, parsed.partition)) {
      command.add(name);
    }
  }
  command.add(commits_.scriptTime()).add(kSlice).add(parsed.space);
  Encoded encoded{&script, command.bytes()};
  NIMBUS_CO_TRY(const auto answer, co_await call(std::move(encoded), parsed.partition));
  if (answer.items.size() != 2) co_return Swept{};
  co_return Swept{static_cast<std::uint64_t>(answer.items[0].integer),
                  answer.items[1].integer != 0};
}

Task<Result<Swept>> RedisStore::Core::sweep(Millis budget) {
  const auto end = Steady::now() + budget;
  Place place;
  {
    const std::lock_guard lock(sweep_mutex_);
    place = std::exchange(place_, {});
  }
  Swept swept;
  while (true) {
    if (!place.keys.empty()) {
      NIMBUS_CO_TRY(const Swept some, co_await sweepKey(place.keys.back()));
      swept.removed += some.removed;
      if (!some.more) place.keys.pop_back();
    } else {
      NIMBUS_CO_TRY(const bool found, co_await findMore(place));
      if (!found) co_return swept;
    }
    if (Steady::now() < end) continue;
    swept.more = !place.keys.empty() || !place.nodes.empty();
    const std::lock_guard lock(sweep_mutex_);
    if (swept.more) place_ = std::move(place);
    co_return swept;
  }
}

// ---- the store

RedisStore::RedisStore(std::shared_ptr<Core> core) : core_(std::move(core)) {}

RedisStore::~RedisStore() {
  core_->stop();
}

Result<std::unique_ptr<RedisStore>> RedisStore::open(Options options) {
  std::unique_ptr<RedisStore> store(new RedisStore(std::make_shared<Core>(std::move(options))));
  NIMBUS_CHECK(store->core_->prepare());
  return store;
}

Description RedisStore::describe() const {
  return {.backend = "redis", .durability = core_->durability()};
}

Timestamp RedisStore::now() const {
  return core_->now();
}

Statistics RedisStore::statistics() const {
  return core_->commits().statistics();
}

PendingCommit RedisStore::begin(CommitOrder order) {
  return core_->commits().begin(std::move(order));
}

Task<Result<std::vector<Answer>>> RedisStore::read(Partition partition,
                                                   std::vector<Query> queries) {
  for (const Query& query : queries) NIMBUS_CO_CHECK(checkQuery(query));
  Encoded encoded = encodeQueries(partition, queries, core_->commits().scriptTime());
  NIMBUS_CO_TRY(auto answer, co_await core_->call(std::move(encoded), partition.name()));
  co_return decodeAnswers(queries, std::move(answer));
}

Task<Result<DirectoryPage>> RedisStore::readDirectory(std::string directory, std::string after,
                                                      std::string prefix, std::size_t limit) {
  NIMBUS_CO_CHECK(checkLimit(limit));
  const auto& script = readDirectoryScript();
  const DirectoryKeys keys = directoryKeys(directory);
  const LexRange range = lexRange(after, prefix);
  Command command("EVALSHA");
  command.add(script.sha1()).add("2").add(keys.values).add(keys.keys);
  command.add(range.from).add(range.to).add(static_cast<std::int64_t>(limit) + 1);
  Encoded encoded{&script, command.bytes()};
  NIMBUS_CO_TRY(auto answer, co_await core_->call(std::move(encoded), keys.values));
  DirectoryPage page;
  for (std::size_t i = 0; i + 1 < answer.items.size(); i += 2) {
    if (page.items.size() == limit) {
      page.more = true;
      break;
    }
    page.items.push_back({std::move(answer.items[i].text), std::move(answer.items[i + 1].text)});
  }
  co_return page;
}

std::unique_ptr<Watch> RedisStore::watch(Partition partition, std::function<void()> changed) {
  return core_->watch(partition, std::move(changed));
}

Task<Result<Swept>> RedisStore::sweep(Millis budget) {
  return core_->sweep(budget);
}

Task<Result<>> RedisStore::check() {
  return core_->check();
}

}  // namespace nimbus::store::redis
