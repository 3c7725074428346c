#pragma once
// A Redis that holds sessions and events of V1. It is only read.

#include "base/result.h"
#include "cli/v1_layout.h"
#include "redis/address.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nimbus::cli {

// Blocks, and is for one thread.
class V1Source {
 public:
  static Result<V1Source> open(const redis::Url& url);
  ~V1Source();
  V1Source(V1Source&&) noexcept;
  V1Source(const V1Source&) = delete;
  V1Source& operator=(const V1Source&) = delete;
  V1Source& operator=(V1Source&&) = delete;

  // Keys of that beginning and type ("hash", "zset"), each once.
  Result<std::vector<std::string>> keys(std::string_view prefix, std::string_view type);
  // The fields of a hash and what they hold.
  Result<std::vector<std::pair<std::string, std::string>>> fields(const std::string& key);
  Result<std::uint64_t> count(const std::string& key);
  // Hands all members of a sorted set to `sink`, some at a time, in their order.
  using Sink = std::function<Result<>(std::vector<V1Member>)>;
  Result<> members(const std::string& key, const Sink& sink);

 private:
  struct Connection;
  explicit V1Source(std::unique_ptr<Connection> connection);

  std::unique_ptr<Connection> connection_;
};

}  // namespace nimbus::cli
