#pragma once
// JSON at the level of its text: what is well formed, where a value ends, how a string is spelled.

#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>

namespace nimbus {

// A text that is not JSON, a value that cannot be made JSON, or one of another kind than asked for.
class JsonError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace native {

// More arrays or objects inside each other the server does not take.
inline constexpr std::size_t kMaxDepth = 64;

inline constexpr std::array<bool, 256> kPlainBytes = [] {
  std::array<bool, 256> plain{};
  for (std::size_t byte = 0x20; byte < 0x80; ++byte) plain[byte] = byte != '"' && byte != '\\';
  return plain;
}();

// What neither begins nor ends a string, an object, an array or a member.
inline constexpr std::array<bool, 256> kInnerBytes = [] {
  std::array<bool, 256> inner{};
  for (std::size_t byte = 0; byte < inner.size(); ++byte) {
    inner[byte] =
        std::string_view("\"{}[],").find(static_cast<char>(byte)) == std::string_view::npos;
  }
  return inner;
}();

// Stands for itself in a JSON string, and is a character on its own.
inline bool isPlain(char byte) {
  return kPlainBytes[static_cast<unsigned char>(byte)];
}

// Length in bytes of the code point `text` begins with; 0 if it begins with none: a stray or
// missing continuation byte, an overlong form, a surrogate, or a value past U+10FFFF.
inline std::size_t sequenceLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const std::size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte's range depends on the first: that rules out all that has the right shape only.
  const unsigned char low = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = first == 0xED ? 0x9F : first == 0xF4 ? 0x8F : 0xBF;
  if (text.size() < length || at(1) < low || at(1) > high) return 0;
  for (std::size_t i = 2; i < length; ++i) {
    if ((at(i) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

inline bool isUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = sequenceLength(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

// The same text; each byte that is no UTF-8 becomes U+FFFD.
inline std::string toUtf8(std::string_view text) {
  std::string clean;
  clean.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = sequenceLength(text);
    clean += length == 0 ? std::string_view("\xEF\xBF\xBD") : text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return clean;
}

// Appends `text` as a JSON string with its quotes. Throws JsonError if it is not UTF-8.
inline void appendString(std::string& out, std::string_view text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += '"';
  std::size_t begin = 0;  // of what is not appended yet
  for (std::size_t at = 0; at < text.size();) {
    if (isPlain(text[at])) {
      ++at;
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte >= 0x80) {
      const std::size_t length = sequenceLength(text.substr(at));
      if (length == 0) throw JsonError("a string that is not UTF-8 cannot be JSON");
      at += length;
      continue;
    }
    out.append(text, begin, at - begin);
    begin = ++at;
    out += '\\';
    switch (byte) {
      case '"':
      case '\\':
        out += static_cast<char>(byte);
        break;
      case '\n':
        out += 'n';
        break;
      case '\r':
        out += 'r';
        break;
      case '\t':
        out += 't';
        break;
      default:
        out += "u00";
        out += kDigits[byte >> 4U];
        out += kDigits[byte & 0xFU];
    }
  }
  out.append(text, begin, text.size() - begin);
  out += '"';
}

inline void appendCodePoint(std::string& out, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  const auto more = [&](unsigned shift) { add(0x80U | ((point >> shift) & 0x3FU)); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0U | (point >> 6U));
    more(0);
  } else if (point < 0x10000) {
    add(0xE0U | (point >> 12U));
    more(6);
    more(0);
  } else {
    add(0xF0U | (point >> 18U));
    more(12);
    more(6);
    more(0);
  }
}

// The number `text` spells in the one way in which integers are written: "-0", "01" and "+1" are
// none. False if it is no such number, or needs more than 64 bits.
inline bool readInteger(std::string_view text, std::int64_t& number) {
  const std::string_view digits = text.substr(text.starts_with('-') ? 1 : 0);
  if (digits.size() > 1 && digits.front() == '0') return false;
  if (text == "-0") return false;
  const char* const end = text.data() + text.size();
  const auto [stopped, failed] = std::from_chars(text.data(), end, number);
  return failed == std::errc() && stopped == end;
}

// A string as it stands between its quotes.
struct Quoted {
  std::string_view raw;
  bool has_escapes = false;

  std::string decoded() const;
};

// Walks through a JSON text, and throws JsonError, with the place, where it is none. What it hands
// out are views of the text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  std::size_t place() const { return at_; }
  std::string_view since(std::size_t place) const { return text_.substr(place, at_ - place); }

  // What the next value begins with; 0 at the end.
  char peek() {
    skipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  bool consume(char wanted) {
    if (peek() != wanted || at_ >= text_.size()) return false;
    ++at_;
    return true;
  }

  void expect(char wanted) {
    if (!consume(wanted)) fail(std::string("expected '") + wanted + "'");
  }

  void expectEnd() {
    skipSpace();
    if (at_ != text_.size()) fail("there is something behind the value");
  }

  Quoted string() {
    expect('"');
    const std::size_t begin = at_;
    bool has_escapes = false;
    while (true) {
      while (at_ < text_.size() && isPlain(text_[at_])) ++at_;
      if (at_ >= text_.size()) fail("a string without an end");
      if (text_[at_] == '"') return {text_.substr(begin, at_++ - begin), has_escapes};
      if (text_[at_] == '\\') {
        has_escapes = true;
        skipEscape();
        continue;
      }
      const std::size_t length = sequenceLength(text_.substr(at_));
      if (static_cast<unsigned char>(text_[at_]) < 0x20) fail("a control character in a string");
      if (length == 0) fail("a string that is not UTF-8");
      at_ += length;
    }
  }

  // The spelling of a number.
  std::string_view number() {
    skipSpace();
    const std::size_t begin = at_;
    if (isAt('-')) ++at_;
    if (isAt('0')) {
      ++at_;
    } else {
      digits();
    }
    if (isAt('.')) {
      ++at_;
      digits();
    }
    if (isAt('e') || isAt('E')) {
      ++at_;
      if (isAt('+') || isAt('-')) ++at_;
      digits();
    }
    return since(begin);
  }

  std::int64_t integer() {
    std::int64_t value = 0;
    if (!readInteger(number(), value)) fail("no integer of 64 bits");
    return value;
  }

  void word(std::string_view expected) {
    skipSpace();
    if (text_.substr(at_, expected.size()) != expected) fail("no value begins here");
    at_ += expected.size();
  }

  bool boolean() {
    const bool value = peek() == 't';
    word(value ? "true" : "false");
    return value;
  }

  // Any value, which is checked and left behind.
  void skip(std::size_t depth = 0) {
    switch (peek()) {
      case '{':
        members(depth, [&](const Quoted&) { skip(depth + 1); });
        return;
      case '[':
        elements(depth, [&] { skip(depth + 1); });
        return;
      case '"':
        static_cast<void>(string());
        return;
      case 't':
        return word("true");
      case 'f':
        return word("false");
      case 'n':
        return word("null");
      default:
        static_cast<void>(number());
    }
  }

  // The text of a value that is known to be JSON, since it was checked before it came here: it is
  // looked at no closer than to find its end.
  std::string_view trusted() {
    skipSpace();
    const std::size_t begin = at_;
    std::size_t depth = 0;
    do {
      while (at_ < text_.size() && kInnerBytes[static_cast<unsigned char>(text_[at_])]) ++at_;
      if (at_ >= text_.size()) {
        if (depth == 0 && at_ > begin) break;
        fail("it ends too early");
      }
      switch (text_[at_]) {
        case '"':
          leapOverString();
          break;
        case '{':
        case '[':
          ++depth;
          ++at_;
          break;
        case ',':
          if (depth == 0) return since(begin);
          ++at_;
          break;
        default:  // the end of this one, or of what it is in
          if (depth == 0) return since(begin);
          --depth;
          ++at_;
      }
    } while (depth > 0);
    return since(begin);
  }

  // Calls `take(name)` for each member of an object that has `depth` others around it. It must read
  // the value.
  template <typename Take>
  void members(std::size_t depth, Take take) {
    enter('{', depth);
    if (consume('}')) return;
    do {
      const Quoted name = string();
      expect(':');
      take(name);
    } while (consume(','));
    expect('}');
  }

  // The same for an array.
  template <typename Take>
  void elements(std::size_t depth, Take take) {
    enter('[', depth);
    if (consume(']')) return;
    do take();
    while (consume(','));
    expect(']');
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw JsonError("this is not JSON: " + what + ", at byte " + std::to_string(at_));
  }

 private:
  void skipSpace() {
    if (at_ < text_.size() && text_[at_] > ' ') return;
    while (isAt(' ') || isAt('\n') || isAt('\r') || isAt('\t')) ++at_;
  }

  bool isAt(char wanted) const { return at_ < text_.size() && text_[at_] == wanted; }

  void leapOverString() {
    while (true) {
      at_ = text_.find('"', at_ + 1);
      if (at_ == std::string_view::npos) {
        at_ = text_.size();
        fail("a string without an end");
      }
      std::size_t escapes = 0;
      while (text_[at_ - 1 - escapes] == '\\') ++escapes;  // the quote it begins with is none
      if (escapes % 2 == 0) break;
    }
    ++at_;
  }

  void enter(char bracket, std::size_t depth) {
    if (depth >= kMaxDepth) {
      fail("more than " + std::to_string(kMaxDepth) + " arrays or objects inside each other");
    }
    expect(bracket);
  }

  void digits() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
    if (at_ == begin) fail(begin < text_.size() ? "no value is spelled so" : "it ends too early");
  }

  // Reads the four digits of a \u, which at_ stands at.
  std::uint32_t hex() {
    std::uint32_t unit = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      const char digit = at_ < text_.size() ? text_[at_] : '\0';
      unit <<= 4U;
      if (digit >= '0' && digit <= '9') {
        unit |= static_cast<std::uint32_t>(digit - '0');
      } else if ((digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F')) {
        unit |= static_cast<std::uint32_t>((digit | 0x20) - 'a' + 10);
      } else {
        fail("\\u without four digits");
      }
    }
    return unit;
  }

  void skipEscape() {
    ++at_;
    const char kind = at_ < text_.size() ? text_[at_] : '\0';
    ++at_;
    if (kind == 'u') {
      static_cast<void>(codePoint());
    } else if (kind == '\0' ||
               std::string_view("\"\\/bfnrt").find(kind) == std::string_view::npos) {
      fail("no such escape");
    }
  }

  // Behind a \u. Halves of a pair that are alone have no UTF-8.
  std::uint32_t codePoint() {
    const std::uint32_t unit = hex();
    if (unit < 0xD800 || unit > 0xDFFF) return unit;
    if (unit >= 0xDC00 || text_.substr(at_, 2) != "\\u") fail("half a surrogate pair");
    at_ += 2;
    const std::uint32_t low = hex();
    if (low < 0xDC00 || low > 0xDFFF) fail("half a surrogate pair");
    return 0x10000 + ((unit - 0xD800) << 10U) + (low - 0xDC00);
  }

  friend struct Quoted;

  std::string_view text_;
  std::size_t at_ = 0;
};

inline std::string Quoted::decoded() const {
  if (!has_escapes) return std::string(raw);
  std::string text;
  text.reserve(raw.size());
  Scanner scanner(raw);
  while (scanner.at_ < raw.size()) {
    const char byte = raw[scanner.at_++];
    if (byte != '\\') {
      text += byte;
      continue;
    }
    const char kind = raw[scanner.at_++];
    switch (kind) {
      case 'b':
        text += '\b';
        break;
      case 'f':
        text += '\f';
        break;
      case 'n':
        text += '\n';
        break;
      case 'r':
        text += '\r';
        break;
      case 't':
        text += '\t';
        break;
      case 'u':
        appendCodePoint(text, scanner.codePoint());
        break;
      default:
        text += kind;
    }
  }
  return text;
}

// One value and nothing else.
inline void checkJson(std::string_view text) {
  Scanner scanner(text);
  scanner.skip();
  scanner.expectEnd();
}

}  // namespace native
}  // namespace nimbus
