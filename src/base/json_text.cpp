#include "base/json_text.h"

#include "base/utf8.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace nimbus {
namespace {

void appendCodeUnit(std::string& out, unsigned char unit) {
  static constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[unit >> 4U];
  out += kHex[unit & 0xfU];
}

void appendEscaped(std::string& out, unsigned char byte) {
  switch (byte) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  if (byte < 0x20 || byte == 0x7f) {
    appendCodeUnit(out, byte);
  } else {
    out += static_cast<char>(byte);
  }
}

constexpr std::array<bool, 256> plainBytes() {
  std::array<bool, 256> plain{};
  for (std::size_t byte = 0x20; byte < 0x7f; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}

// How much of it needs nothing done to it: almost always all.
std::size_t plainLength(std::string_view text) {
  static constexpr std::array<bool, 256> kPlain = plainBytes();
  const auto special = std::find_if_not(
      text.begin(), text.end(), [](char c) { return kPlain[static_cast<unsigned char>(c)]; });
  return static_cast<std::size_t>(special - text.begin());
}

// U+0080..U+009F. JSON allows them as they are, but a terminal takes U+009B for ESC [.
bool isC1Control(std::string_view code_point) {
  return code_point.size() == 2 && code_point[0] == '\xC2' &&
         static_cast<unsigned char>(code_point[1]) < 0xA0;
}

}  // namespace

void appendJsonString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t plain = plainLength(text);
    out.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = utf8::sequenceLength(text);
    if (length == 1) {
      appendEscaped(out, static_cast<unsigned char>(text.front()));
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else if (isC1Control(text.substr(0, length))) {
      appendCodeUnit(out, static_cast<unsigned char>(text[1]));
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

std::string printable(std::string_view text) {
  std::string out;
  appendJsonString(out, text);
  return out.substr(1, out.size() - 2);
}

}  // namespace nimbus
