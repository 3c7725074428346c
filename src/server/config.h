#pragma once
// Everything about a Nimbus server that can be set, with its defaults. The names by which settings
// are known outside, and what each means, stand in config.cpp and nowhere else.

#include "base/clock.h"
#include "base/log.h"
#include "base/settings.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace nimbus::server {

enum class StoreBackend : std::uint8_t { Sqlite, Redis };
enum class SqliteSynchronous : std::uint8_t { Full, Normal, Off };

struct ServerConfig {
  std::string listen = "127.0.0.1:8787";
  std::string data = "nimbus-data";
  int threads = 0;
  std::size_t max_body_bytes = 1024UL * 1024;
  std::size_t max_header_bytes = 32UL * 1024;
  int max_connections = 10'000;
  Millis idle_timeout{60'000};
  Millis header_timeout{10'000};
  Millis body_timeout{10'000};
  Millis body_total_timeout{300'000};
  Millis write_timeout{30'000};
  Millis drain{10'000};
  bool public_metrics = false;
  bool access_log = false;
  Millis keep_results{24LL * 3600 * 1000};
  Millis keep_parked{7LL * 24 * 3600 * 1000};
  Millis keep_answers{24LL * 3600 * 1000};
  std::string tls_cert_file;
  std::string tls_key_file;
};

enum class DefaultIsolation : std::uint8_t { Auto, Sandbox, Process };

struct FunctionsConfig {
  DefaultIsolation isolation = DefaultIsolation::Auto;
  bool network = false;
  std::string wheels;
  Millis install_timeout{300'000};
  Millis unused_dependencies{3'600'000};
};

struct LogConfig {
  log::Level level = log::Level::Info;
  log::Format format = log::Format::Auto;
};

struct RedisConfig {
  std::string url;
  bool cluster = false;
  std::string sentinel;
  bool tls = false;
  std::string username;
  std::string password_file;
  int wait_replicas = 0;
};

struct GatewayConfig {
  std::string instance_id = "auto";
  StoreBackend store_backend = StoreBackend::Sqlite;
  std::string sqlite_path;
  bool sqlite_wal_mode = true;
  RedisConfig redis;
};

struct StoreConfig {
  SqliteSynchronous sqlite_synchronous = SqliteSynchronous::Full;
};

struct StateConfig {
  bool enabled = true;
  std::string redis_addr;
  std::string redis_password;
  int redis_db = 0;
  Millis default_ttl{3'600'000};
  std::size_t max_state_size = 64UL * 1024;
  int max_keys = 100;
  bool affinity_enabled = true;
  Millis session_timeout{3'600'000};
  Millis cache_ttl{30'000};
  int memory_mb = 512;
};

// Requests per minute; 0 is no limit.
struct RateLimitConfig {
  int per_key = 600;
  int per_ip = 0;
  int per_function = 0;
};

enum class Ownership : std::uint8_t { Auto, On, Off };

// Among the nodes that share a store.
struct ClusterConfig {
  Ownership ownership = Ownership::Auto;
  std::string listen;
  std::string advertise;
  Millis lease{5'000};
};

struct AuditConfig {
  int max_entries = 100'000;
};

struct Config {
  ServerConfig server;
  FunctionsConfig functions;
  LogConfig log;
  GatewayConfig gateway;
  StoreConfig store;
  StateConfig state;
  RateLimitConfig rate_limit;
  AuditConfig audit;
  ClusterConfig cluster;
};

// Whether everything durable is kept in Redis.
bool usesRedis(const Config& config);

// Whether every session has one owner among the servers, to which the others forward.
bool hasOwners(const Config& config);

// `config` must outlive `settings`.
void declareSettings(Settings& settings, Config& config);

// What no single setting can say: settings that need each other, values with a form of their own.
// `settings` names the places.
Settings::Problems crossCheck(const Config& config, const Settings& settings);

}  // namespace nimbus::server
