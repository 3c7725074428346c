#pragma once
// Identifiers that callers choose. Each kind is a type of its own, so that a session key cannot be
// passed where a function id belongs, and each can only be made by parse(): an id in hand is valid.

#include "base/result.h"

#include <compare>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace nimbus {

// [A-Za-z0-9][A-Za-z0-9_.-]{0,127}: safe in URLs, file names and metric labels.
Result<> checkName(std::string_view what, std::string_view text);

// Any UTF-8 of 1..256 bytes without control characters. Everything else in it is data: `:`, `{`,
// `*` and `/` have no meaning to us.
Result<> checkText(std::string_view what, std::string_view text);

enum class IdRule { Name, Text };

// Tag: a struct with `static constexpr std::string_view kWhat` (how errors call it) and
// `static constexpr IdRule kRule`.
template <typename Tag>
class Id {
 public:
  static Result<Id> parse(std::string_view text) {
    if constexpr (Tag::kRule == IdRule::Name) {
      NIMBUS_CHECK(checkName(Tag::kWhat, text));
    } else {
      NIMBUS_CHECK(checkText(Tag::kWhat, text));
    }
    return Id(std::string(text));
  }

  const std::string& text() const { return text_; }

  auto operator<=>(const Id&) const = default;

 private:
  explicit Id(std::string text) : text_(std::move(text)) {}

  std::string text_;
};

struct FunctionTag {
  static constexpr std::string_view kWhat = "function id";
  static constexpr IdRule kRule = IdRule::Name;
};
struct SessionTag {
  static constexpr std::string_view kWhat = "session key";
  static constexpr IdRule kRule = IdRule::Text;
};

using FunctionId = Id<FunctionTag>;
using SessionKey = Id<SessionTag>;

}  // namespace nimbus

template <typename Tag>
struct std::hash<nimbus::Id<Tag>> {
  std::size_t operator()(const nimbus::Id<Tag>& id) const noexcept {
    return std::hash<std::string>()(id.text());
  }
};
