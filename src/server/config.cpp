#include "server/config.h"

#include "base/ids.h"
#include "server/listen_address.h"

#include <fmt/format.h>

#include <limits>

namespace nimbus::server {
namespace {

using Range = Settings::Range;
using ByteRange = Settings::ByteRange;
using DurationRange = Settings::DurationRange;

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr std::size_t kGiB = 1024 * kMiB;
constexpr DurationRange kWait = {Millis(1), Millis(24LL * 3600 * 1000)};
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
  settings.add("server.public_metrics", config.public_metrics, "Serve /metrics without a key");
  settings.add("server.access_log", config.access_log, "Log every request, whatever log.level is");
  settings.add("server.tls.cert_file", config.tls_cert_file,
               "Certificate chain in PEM; with tls.key_file the server speaks HTTPS only");
  settings.add("server.tls.key_file", config.tls_key_file, "Private key in PEM");
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
           "redis://HOST:PORT/DB or redis+cluster://HOST:PORT,HOST:PORT")
      .reserved();
  settings.add("gateway.store.redis.cluster", config.redis.cluster, "The URL names a Redis Cluster")
      .reserved();
  settings
      .add("gateway.store.redis.sentinel", config.redis.sentinel,
           "Name of the primary, if the URL names Sentinels")
      .reserved();
  settings.add("gateway.store.redis.tls", config.redis.tls, "Use TLS").reserved();
  settings.add("gateway.store.redis.username", config.redis.username, "ACL user").reserved();
  settings
      .add("gateway.store.redis.password_file", config.redis.password_file,
           "File whose first line is the password")
      .reserved();
  settings
      .add("gateway.store.redis.wait_replicas", config.redis.wait_replicas, Range{0, 16},
           "Replicas that must have a commit before it is answered")
      .reserved();
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
  settings.add("state.enabled", config.enabled, "Functions have state").reserved();
  settings
      .add("state.redis.addr", config.redis_addr,
           "HOST:PORT of Redis; an older name of gateway.store.redis.url")
      .reserved();
  settings.add("state.redis.password", config.redis_password, "Password of Redis")
      .secret()
      .reserved();
  settings.add("state.redis.db", config.redis_db, Range{0, 65'535}, "Database number of Redis")
      .reserved();
  settings
      .add("state.defaults.default_ttl", config.default_ttl, kLifetime,
           "Seconds a key lives if its write says nothing; 0 is for ever")
      .reserved();
  settings
      .add("state.defaults.max_state_size", config.max_state_size, ByteRange{0, kGiB},
           "Largest value; 0 is no limit")
      .reserved();
  settings
      .add("state.defaults.max_keys", config.max_keys, Range{0, std::numeric_limits<int>::max()},
           "Keys per session; 0 is no limit")
      .reserved();
  settings
      .add("state.session.affinity_enabled", config.affinity_enabled,
           "Calls of a session stay on one instance")
      .reserved();
  settings
      .add("state.session.session_timeout", config.session_timeout, kLifetime,
           "Seconds without a call after which a session is let go; 0 is never")
      .reserved();
  settings
      .add("state.session.cache_ttl", config.cache_ttl, kLifetime,
           "Seconds an idle session's state stays in memory")
      .reserved();
}

}  // namespace

void declareSettings(Settings& settings, Config& config) {
  declareServer(settings, config.server);
  declareLog(settings, config.log);
  declareGateway(settings, config.gateway);
  declareStore(settings, config.store);
  declareState(settings, config.state);
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
  const bool has_redis = !config.gateway.redis.url.empty() || !config.state.redis_addr.empty();
  if (config.gateway.store_backend == StoreBackend::Redis && !has_redis) {
    add("gateway.store.backend", "is redis, which needs gateway.store.redis.url");
  }
  return problems;
}

}  // namespace nimbus::server
