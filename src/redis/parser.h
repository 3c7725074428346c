#pragma once
// Reads RESP3 (and RESP2) as it arrives, in pieces of any size.
//
// Written for bytes of strangers: what is nested too deep or claims to be too long is refused, and
// nothing is reserved on the strength of a claim.

#include "base/result.h"
#include "redis/value.h"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::redis {

class Parser {
 public:
  static constexpr std::size_t kMaxDepth = 32;
  static constexpr std::size_t kMaxLine = 64UL * 1024;
  static constexpr std::size_t kMaxText = 512UL * 1024 * 1024;  // Redis has the same limit

  void feed(std::string_view bytes);

  // The next whole value; nothing until more has been fed. After an error (Internal) the bytes have
  // no meaning any more, and the connection must be closed.
  Result<std::optional<Value>> next();

 private:
  // An aggregate of which some items are missing.
  struct Open {
    Value value;
    std::size_t missing = 0;
    bool dropped = false;  // an attribute: what it says is about the value behind it
  };
  enum class Step : std::uint8_t { NeedsMore, Opened, Complete };

  Result<Step> step(Value& value);
  Result<Step> text(Value& value, std::int64_t length, std::size_t begin);
  // A value without a kind is an attribute.
  Result<Step> open(Value& value, std::int64_t count, std::size_t begin);
  // Puts a complete value where it belongs. True if `value` is now one that nothing contains.
  bool close(Value& value);

  std::string buffer_;
  std::size_t at_ = 0;  // what is before has been read
  std::vector<Open> open_;
};

}  // namespace nimbus::redis
