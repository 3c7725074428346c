#include "server/config.h"

#include "base/ids.h"
#include "redis/address.h"
#include "server/listen_address.h"

#include <fmt/format.h>

#include <limits>
#include <utility>

namespace nimbus::server {
namespace {

using Range = Settings::Range;
using ByteRange = Settings::ByteRange;
using DurationRange = Settings::DurationRange;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;
constexpr DurationRange kWait = {Millis(1), Millis(24LL * 3600 * 1000)};
constexpr DurationRange kKept = {Millis(1000), Millis(366LL * 24 * 3600 * 1000)};
constexpr DurationRange kLifetime = {Millis(0), Millis(100LL * 365 * 24 * 3600 * 1000)};

void declareServer(Settings& settings, ServerConfig& config) {
  settings.add("server.listen", config.listen,
               "IP address and port to listen on; port 0 picks a free one");
  settings.add("server.data", config.data,
               "Data directory; made with mode 0700 if it is not there");
  settings.add("server.threads", config.threads, Range{0, 1024},
               "Threads that serve requests; 0 is one for every two processors, which leaves the "
               "others to functions and the store");
  settings.add("server.max_body_bytes", config.max_body_bytes, ByteRange{0, kGiB},
               "Largest request body; a larger one is answered 413");
  settings.add("server.max_header_bytes", config.max_header_bytes, ByteRange{kKiB, kMiB},
               "Largest request head, request line included; a larger one is answered 431");
  settings.add("server.max_connections", config.max_connections, Range{1, 1'000'000},
               "Open connections; one more is answered 503 and closed");
  settings.add("server.idle_timeout_ms", config.idle_timeout, kWait,
               "How long a connection may stay open between requests");
  settings.add("server.header_timeout_ms", config.header_timeout, kWait,
               "How long a client may take to send a request's head");
  settings.add("server.body_timeout_ms", config.body_timeout, kWait,
               "How long a client may pause while it sends a body");
  settings.add("server.body_total_timeout_ms", config.body_total_timeout, kWait,
               "How long a client may take to send a whole body");
  settings.add("server.write_timeout_ms", config.write_timeout, kWait,
               "How long a client may take no byte of an answer");
  settings.add("server.drain_ms", config.drain, {Millis(0), Millis(3600 * 1000)},
               "How long running requests may go on after SIGTERM");
  settings.add("server.keep_results_ms", config.keep_results, kKept,
               "How long it is known what became of an asynchronous call after its end");
  settings.add("server.keep_parked_ms", config.keep_parked, kKept,
               "How long an asynchronous call that was given up or has failed can be replayed");
  settings.add("server.keep_answers_ms", config.keep_answers, kKept,
               "How long the answer to an Idempotency-Key is given again");
  settings.add("server.public_metrics", config.public_metrics, "Serve /metrics without a key");
  settings.add("server.access_log", config.access_log, "Log every request, whatever log.level is");
  settings.add("server.tls.cert_file", config.tls_cert_file,
               "Certificate chain in PEM; with tls.key_file the server speaks HTTPS only");
  settings.add("server.tls.key_file", config.tls_key_file, "Private key in PEM");
}

void declareFunctions(Settings& settings, FunctionsConfig& config) {
  using enum DefaultIsolation;
  settings.add("functions.isolation", config.isolation,
               {{"auto", Auto}, {"sandbox", Sandbox}, {"process", Process}},
               "Of functions that say nothing; auto is sandbox where the kernel permits it, "
               "sandbox refuses to start where it does not");
  settings.add("functions.network", config.network,
               "Functions in a sandbox that ask for it (network: true) have the host's network");
  settings.add(
      "functions.wheels", config.wheels,
      "Folder with wheels that requirements.txt is installed from; empty is the index that "
      "pip is configured for");
  settings.add("functions.install_timeout_ms", config.install_timeout, kWait,
               "How long installing requirements.txt or package.json may take");
  settings.add("functions.unused_dependencies_s", config.unused_dependencies, kLifetime,
               "How long installed packages stay that no kept version needs");
}

void declareLog(Settings& settings, LogConfig& config) {
  using enum log::Level;
  settings.add("log.level", config.level,
               {{"debug", Debug}, {"info", Info}, {"warn", Warn}, {"error", Error}, {"off", Off}},
               "Least important lines that are logged");
  settings.add(
      "log.format", config.format,
      {{"auto", log::Format::Auto}, {"text", log::Format::Text}, {"json", log::Format::Json}},
      "auto is text on a terminal and JSON elsewhere");
}

void declareGateway(Settings& settings, GatewayConfig& config) {
  settings.add("gateway.instance.id", config.instance_id,
               "Name of this process, unique among those that share a store; auto makes one");
  settings.add("gateway.store.backend", config.store_backend,
               {{"sqlite", StoreBackend::Sqlite}, {"redis", StoreBackend::Redis}},
               "Where everything durable is kept");
  settings.add("gateway.store.sqlite.path", config.sqlite_path,
               "Database file; empty is nimbus.db in the data directory");
  settings.add("gateway.store.sqlite.walMode", config.sqlite_wal_mode, "Use a write-ahead log");
  settings
      .add("gateway.store.redis.url", config.redis.url,
           "redis://USER:PASSWORD@HOST:PORT/DB or redis+cluster://HOST:PORT,HOST:PORT")
      .secret();
  settings.add("gateway.store.redis.cluster", config.redis.cluster,
               "The URL names a Redis Cluster");
  settings.add("gateway.store.redis.sentinel", config.redis.sentinel,
               "Name of the primary, if the URL names Sentinels");
  settings.add("gateway.store.redis.tls", config.redis.tls,
               "Use TLS; the server is verified by the system's certificates");
  settings.add("gateway.store.redis.username", config.redis.username, "ACL user");
  settings.add("gateway.store.redis.password_file", config.redis.password_file,
               "File whose first line is the password");
  settings.add("gateway.store.redis.wait_replicas", config.redis.wait_replicas, Range{0, 16},
               "Replicas that must have a commit before it is answered");
}

void declareStore(Settings& settings, StoreConfig& config) {
  using enum SqliteSynchronous;
  settings.add(
      "store.sqlite.synchronous", config.sqlite_synchronous,
      {{"full", Full}, {"normal", Normal}, {"off", Off}},
      "full survives power loss; normal may lose the last commits to it; off survives only "
      "the end of the process");
}

void declareState(Settings& settings, StateConfig& config) {
  settings.add("state.enabled", config.enabled, "Functions have state");
  settings.add("state.redis.addr", config.redis_addr,
               "HOST:PORT of Redis: the store is there, if gateway.store does not name another");
  settings.add("state.redis.password", config.redis_password, "Password of Redis").secret();
  settings.add("state.redis.db", config.redis_db, Range{0, 65'535}, "Database number of Redis");
  settings.add("state.defaults.default_ttl", config.default_ttl, kLifetime,
               "Seconds a key lives if its write says nothing; 0 is for ever");
  settings.add("state.defaults.max_state_size", config.max_state_size, ByteRange{0, kGiB},
               "Largest value; 0 is no limit");
  settings.add("state.defaults.max_keys", config.max_keys,
               Range{0, std::numeric_limits<int>::max()}, "Keys per session; 0 is no limit");
  settings.add("state.session.affinity_enabled", config.affinity_enabled,
               "Calls of a session stay on one instance");
  settings.add("state.session.session_timeout", config.session_timeout, kLifetime,
               "Seconds without a call after which a session is let go; 0 is never");
  settings.add("state.session.cache_ttl", config.cache_ttl, kLifetime,
               "Seconds that a session nobody calls stays in memory");
  settings.add("state.session.memory_mb", config.memory_mb, Range{0, 1'000'000},
               "Memory that sessions may take; beyond it those called least recently leave it, and "
               "are read again when they are called. 0 is no limit");
}

void declareRateLimit(Settings& settings, RateLimitConfig& config) {
  constexpr Range kRequests{0, 1'000'000};
  settings.add("rate_limit.per_key", config.per_key, kRequests,
               "Requests per minute of an API key that has no limit of its own; 0 is no limit. The "
               "administrator key has none");
  settings.add("rate_limit.per_ip", config.per_ip, kRequests,
               "Requests per minute from one IP address, whatever the key; 0 is no limit");
  settings.add("rate_limit.per_function", config.per_function, kRequests,
               "Calls of one function per minute; 0 is no limit");
}

void declareAudit(Settings& settings, AuditConfig& config) {
  settings.add("audit.max_entries", config.max_entries, Range{100, 10'000'000},
               "Entries of the audit log that are kept, of acts and of refusals each");
}

void declareCluster(Settings& settings, ClusterConfig& config) {
  using enum Ownership;
  settings.add("cluster.ownership", config.ownership, {{"auto", Auto}, {"on", On}, {"off", Off}},
               "Every session has one owner among the servers that share the store, and the others "
               "forward to it; auto is on with Redis. Without, servers that share a SQLite file "
               "take sessions from each other. The same on all nodes");
  settings.add("cluster.listen", config.listen,
               "IP address and port for other nodes, to be reached by them only; empty is a free "
               "port of server.listen's address");
  settings.add("cluster.advertise", config.advertise,
               "IP address and port by which other nodes reach cluster.listen; empty is that, or "
               "an address of this machine if it is 0.0.0.0");
  settings.add("cluster.lease_ms", config.lease, {Millis(500), Millis(600'000)},
               "How long other nodes wait for one that they hear nothing of before they take its "
               "sessions over; the same on all nodes");
}

template <typename Add>
void checkRedis(const Config& config, const Settings& settings, const Add& add) {
  const RedisConfig& redis = config.gateway.redis;
  if (redis.url.empty() && config.state.redis_addr.empty()) {
    add("gateway.store.backend", "is redis, which needs gateway.store.redis.url");
    return;
  }
  const bool is_sqlite = config.gateway.store_backend == StoreBackend::Sqlite;
  if (is_sqlite && !settings.origin("gateway.store.backend").empty()) {
    add("state.redis.addr", "names a Redis, but gateway.store.backend is sqlite");
  }
  if (redis.url.empty()) {
    if (const auto address = redis::parseAddress(config.state.redis_addr); !address) {
      add("state.redis.addr", address.error().message());
    }
  } else if (const auto url = redis::parseUrl(redis.url); !url) {
    add("gateway.store.redis.url", url.error().message());
  } else if ((redis.cluster || url->cluster) && !redis.sentinel.empty()) {
    add("gateway.store.redis.sentinel", "a cluster needs no Sentinels; leave one of the two out");
  }
}

}  // namespace

bool usesRedis(const Config& config) {
  return config.gateway.store_backend == StoreBackend::Redis || !config.state.redis_addr.empty();
}

// A disk that is full, or that another process has to itself, keeps a lease from being renewed: a
// lone server must go on reading then.
bool hasOwners(const Config& config) {
  if (config.cluster.ownership != Ownership::Auto) return config.cluster.ownership == Ownership::On;
  return usesRedis(config);
}

void declareSettings(Settings& settings, Config& config) {
  declareServer(settings, config.server);
  declareFunctions(settings, config.functions);
  declareLog(settings, config.log);
  declareGateway(settings, config.gateway);
  declareStore(settings, config.store);
  declareState(settings, config.state);
  declareRateLimit(settings, config.rate_limit);
  declareAudit(settings, config.audit);
  declareCluster(settings, config.cluster);
}

Settings::Problems crossCheck(const Config& config, const Settings& settings) {
  Settings::Problems problems;
  const auto add = [&](std::string_view name, std::string_view what) {
    const std::string& origin = settings.origin(name);
    problems.push_back(
        {origin.empty() ? "configuration" : origin, fmt::format("{} {}", name, what)});
  };

  if (const auto listen = parseListenAddress(config.server.listen); !listen) {
    add("server.listen", listen.error().message());
  }
  for (const auto& [name, address] : {std::pair("cluster.listen", config.cluster.listen),
                                      std::pair("cluster.advertise", config.cluster.advertise)}) {
    if (address.empty()) continue;
    if (const auto parsed = parseListenAddress(address); !parsed)
      add(name, parsed.error().message());
  }
  if (config.server.data.empty()) add("server.data", "must name a directory");
  if (config.server.tls_cert_file.empty() && !config.server.tls_key_file.empty()) {
    add("server.tls.key_file", "needs server.tls.cert_file beside it");
  }
  if (config.server.tls_key_file.empty() && !config.server.tls_cert_file.empty()) {
    add("server.tls.cert_file", "needs server.tls.key_file beside it");
  }
  if (const auto id = checkName("it", config.gateway.instance_id); !id) {
    add("gateway.instance.id", id.error().message());
  }
  if (usesRedis(config)) checkRedis(config, settings, add);
  return problems;
}

}  // namespace nimbus::server
