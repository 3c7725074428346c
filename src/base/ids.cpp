#include "base/ids.h"

#include "base/utf8.h"

#include <fmt/format.h>

#include <algorithm>

namespace nimbus {
namespace {

constexpr std::size_t kMaxName = 128;
constexpr std::size_t kMaxText = 256;

bool isAlphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

bool isNameCharacter(char c) {
  return isAlphanumeric(c) || c == '_' || c == '.' || c == '-';
}

// U+0080..U+009F are control characters too; in UTF-8 they are 0xC2 0x80..0x9F.
bool hasControlCharacter(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7f) return true;
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      return true;
    }
  }
  return false;
}

Error invalid(std::string_view what, std::string_view why) {
  return {Code::InvalidArgument, fmt::format("{}: {}", what, why)};
}

Result<> checkLength(std::string_view what, std::string_view text, std::size_t most) {
  if (!text.empty() && text.size() <= most) return {};
  return invalid(what, fmt::format("must have 1 to {} bytes, has {}", most, text.size()));
}

}  // namespace

Result<> checkName(std::string_view what, std::string_view text) {
  NIMBUS_CHECK(checkLength(what, text, kMaxName));
  if (isAlphanumeric(text.front()) && std::all_of(text.begin(), text.end(), isNameCharacter)) {
    return {};
  }
  return invalid(
      what, "must begin with a letter or digit and hold only letters, digits, '_', '.' and '-'");
}

Result<> checkText(std::string_view what, std::string_view text) {
  NIMBUS_CHECK(checkLength(what, text, kMaxText));
  if (!utf8::isValid(text)) return invalid(what, "must be UTF-8");
  if (hasControlCharacter(text)) return invalid(what, "must not hold control characters");
  return {};
}

}  // namespace nimbus
