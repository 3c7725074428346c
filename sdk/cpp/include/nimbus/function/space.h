#pragma once
// The state of a scope, as texts: what State is made of. Keys, ttls and values that come in here
// are valid: State sees to that.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::native {

// The `state` of Load. A 0 means no limit.
struct Limits {
  bool enabled = true;
  std::int64_t default_ttl_ms = 0;
  std::uint64_t max_value_bytes = 0;
  std::uint64_t max_keys = 0;
  std::uint64_t max_total_bytes = 0;
};

struct Found {
  std::string text;
  std::int64_t version = 0;
};

struct KeyAndText {
  std::string_view key;
  std::string_view text;
};

// Each method is one atomic step, also for threads that the function starts.
class Space {
 public:
  Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;
  virtual ~Space() = default;

  virtual std::optional<Found> get(std::string_view key) = 0;
  // In the order of `keys`.
  virtual std::vector<std::optional<std::string>> getMany(
      const std::vector<std::string_view>& keys) = 0;
  // `version` absent: whatever there is. `ttl` in seconds: 0 is the default, -1 never.
  virtual std::int64_t set(std::string_view key, std::string_view text,
                           std::optional<std::int64_t> version, double ttl) = 0;
  // No key is there twice.
  virtual void setMany(const std::vector<KeyAndText>& values, double ttl) = 0;
  virtual std::int64_t incr(std::string_view key, std::int64_t delta) = 0;
  virtual std::int64_t decr(std::string_view key, std::int64_t delta) = 0;
  virtual bool remove(std::string_view key) = 0;
  virtual std::int64_t clear() = 0;
  virtual bool exists(std::string_view key) = 0;
  // Sorted by bytes.
  virtual std::vector<std::string> keys(std::string_view pattern) = 0;
  virtual void expire(std::string_view key, double ttl) = 0;
  virtual void persist(std::string_view key) = 0;
  virtual double ttl(std::string_view key) = 0;
};

}  // namespace nimbus::native
