#include "http/percent.h"

#include "base/utf8.h"
#include "http/text.h"

namespace nimbus::http {
namespace {

Error invalid(const char* why) {
  return {Code::InvalidArgument, why};
}

bool isUnreserved(char c) {
  const char lower = lowerCase(c);
  return (lower >= 'a' && lower <= 'z') || isDigit(c) || c == '-' || c == '.' || c == '_' ||
         c == '~';
}

}  // namespace

Result<> percentDecode(std::string_view text, Plus plus, std::string& out) {
  const std::size_t begin = out.size();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '+' && plus == Plus::Space) {
      out += ' ';
    } else if (c != '%') {
      out += c;
    } else {
      if (text.size() - i < 3) return invalid("a percent-encoding is cut off");
      const int high = hexValue(text[i + 1]);
      const int low = hexValue(text[i + 2]);
      if (high < 0 || low < 0) return invalid("'%' must be followed by two hexadecimal digits");
      const int byte = high * 16 + low;
      if (byte == 0) return invalid("an encoded NUL is not allowed");
      out += static_cast<char>(byte);
      i += 2;
    }
  }
  if (!utf8::isValid(std::string_view(out).substr(begin))) {
    return invalid("percent-encoded text must be UTF-8");
  }
  return {};
}

std::string percentEncode(std::string_view text) {
  static constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    if (isUnreserved(c)) {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '%';
    out += kHex[byte >> 4U];
    out += kHex[byte & 0xfU];
  }
  return out;
}

}  // namespace nimbus::http
