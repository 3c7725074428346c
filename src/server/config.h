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
  std::string tls_cert_file;
  std::string tls_key_file;
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
};

struct Config {
  ServerConfig server;
  LogConfig log;
  GatewayConfig gateway;
  StoreConfig store;
  StateConfig state;
};

// `config` must outlive `settings`.
void declareSettings(Settings& settings, Config& config);

// What no single setting can say: settings that need each other, values with a form of their own.
// `settings` names the places.
Settings::Problems crossCheck(const Config& config, const Settings& settings);

}  // namespace nimbus::server
