#pragma once
// What a Redis server says, in RESP3.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::redis {

struct Value {
  enum class Kind : std::uint8_t {
    Null,
    Text,     // simple, bulk and verbatim strings, and numbers that fit nowhere else
    Error,    // `text` begins with its code: "MOVED 3999 127.0.0.1:6381"
    Integer,  // and booleans
    Array,    // and sets; of maps the keys and values in turn
    Push,     // an array that nobody asked for
  };

  Kind kind = Kind::Null;
  std::int64_t integer = 0;
  std::string text;
  std::vector<Value> items;

  bool isNull() const { return kind == Kind::Null; }
  bool isError() const { return kind == Kind::Error; }
  bool isText() const { return kind == Kind::Text; }
  bool isInteger() const { return kind == Kind::Integer; }
  bool isArray() const { return kind == Kind::Array; }
  // Whether it is an error with that code.
  bool isError(std::string_view code) const {
    return isError() && text.starts_with(code) &&
           (text.size() == code.size() || text[code.size()] == ' ');
  }

  bool operator==(const Value&) const = default;
};

}  // namespace nimbus::redis
