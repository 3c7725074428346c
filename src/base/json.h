#pragma once
// JSON that is read. Text of users' is checked whole and otherwise passed on as it came; what is
// ours is looked at where it lies.
//
//   NIMBUS_TRY(const JsonValue head, parseJson(text));
//   const auto status = head.integer("status");

#include "base/result.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus {

// Arrays and objects inside each other; text with more is refused.
inline constexpr std::size_t kMaxJsonDepth = 64;

// A value of a parsed document. The document is the thread's: values and the strings they hand out
// are valid until the same thread parses again.
class JsonValue {
 public:
  enum class Kind : std::uint8_t { Null, Boolean, Number, String, Array, Object };
  Kind kind() const;
  bool isObject() const { return kind() == Kind::Object; }
  bool isArray() const { return kind() == Kind::Array; }

  // The value, if it is of that kind. An integer is a number without fraction or exponent that has
  // 64 bits and a sign.
  std::optional<bool> boolean() const;
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const;
  std::optional<std::string_view> string() const;

  // Of an object; nothing if there is no such member, or this is no object. Of several members of
  // one name the first is found.
  std::optional<JsonValue> member(std::string_view name) const;
  std::optional<std::int64_t> integer(std::string_view name) const;
  std::optional<std::string_view> string(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name) const;

  // Of an array; empty if this is none.
  std::vector<JsonValue> elements() const;
  // Of an object; empty if this is none. In the order of the text.
  std::vector<std::pair<std::string_view, JsonValue>> members() const;

 private:
  friend struct JsonAccess;
  JsonValue() = default;

  alignas(8) std::array<std::byte, 16> element_{};  // a simdjson::dom::element
};

// InvalidJson if `text` is not one JSON value in UTF-8, or is nested too deeply.
Result<JsonValue> parseJson(std::string_view text);

// For text that is passed on. Anything in `text` but one value, and space around it, is refused.
Result<> checkJson(std::string_view text);

// `text` without the space around it.
std::string_view trimJson(std::string_view text);

// The members of the object that `text` is, each as it stands in the text; names are unescaped.
// Checks the whole. InvalidJson if it is no JSON, InvalidArgument if it is no object or has two
// members of one name.
struct RawMember {
  std::string name;
  std::string_view value;  // into `text`
};
Result<std::vector<RawMember>> splitObject(std::string_view text);

// The elements of the array that `text` is, each as it stands in the text. Checks the whole.
// InvalidJson if it is no JSON, InvalidArgument if it is no array.
Result<std::vector<std::string_view>> splitArray(std::string_view text);

}  // namespace nimbus
