#include "base/json_text.h"

#include "base/utf8.h"

#include <array>
#include <cstdint>

namespace nimbus {
namespace {

void appendEscaped(std::string& out, unsigned char byte) {
  static constexpr std::string_view kHex = "0123456789abcdef";
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
    out += "\\u00";
    out += kHex[byte >> 4U];
    out += kHex[byte & 0xfU];
    return;
  }
  out += static_cast<char>(byte);
}

}  // namespace

void appendJsonString(std::string& out, std::string_view text) {
  out += '"';
  while (!text.empty()) {
    const std::size_t length = utf8::sequenceLength(text);
    if (length == 1) {
      appendEscaped(out, static_cast<unsigned char>(text.front()));
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      out.append(text.substr(0, length));
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  out += '"';
}

}  // namespace nimbus
