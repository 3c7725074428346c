#include "http/chunked.h"

#include "http/text.h"

#include <algorithm>
#include <array>

namespace nimbus::http {
namespace {

constexpr std::size_t kMaxSizeDigits = 16;
constexpr std::size_t kMaxExtensionBytes = 4 * 1024;
constexpr std::size_t kMaxTrailerBytes = 8 * 1024;

bool isControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\t') || byte == 0x7f;
}

// Fields that frame, route or authorise a request: too late after the body.
bool isForbiddenTrailer(std::string_view name) {
  static constexpr std::array<std::string_view, 16> kForbidden = {
      "content-length", "transfer-encoding",  "host",        "authorization",
      "cookie",         "connection",         "te",          "trailer",
      "expect",         "content-type",       "upgrade",     "content-encoding",
      "content-range",  "nimbus-session-key", "x-device-id", "x-device-token"};
  return std::any_of(kForbidden.begin(), kForbidden.end(), [&](std::string_view forbidden) {
    return equalIgnoringCase(forbidden, name);
  });
}

bool isToken(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), isTokenCharacter);
}

// Takes a token off the front; empty if there is none.
std::string_view takeToken(std::string_view& text) {
  const auto* const end = std::find_if_not(text.begin(), text.end(), isTokenCharacter);
  const std::string_view token = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(token.size());
  return token;
}

bool takeQuotedString(std::string_view& text) {
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '\\') {
      ++i;
    } else if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// What stands between the first ';' and the end of a chunk's first line.
bool isExtensionList(std::string_view text) {
  while (true) {
    if (takeToken(text).empty()) return false;
    if (text.starts_with('=')) {
      text.remove_prefix(1);
      const bool is_quoted = text.starts_with('"');
      if (is_quoted ? !takeQuotedString(text) : takeToken(text).empty()) return false;
    }
    if (text.empty()) return true;
    if (text.front() != ';') return false;
    text.remove_prefix(1);
  }
}

}  // namespace

ChunkedDecoder::Progress ChunkedDecoder::decode(std::string_view& bytes, std::size_t max_body,
                                                std::string& body) {
  while (!bytes.empty()) {
    if (state_ == State::Data) {
      if (remaining_ > max_body - body.size()) {
        return refuse({413, Code::TooLarge, "the request body is too long"});
      }
      const auto taken =
          static_cast<std::size_t>(std::min<std::uint64_t>(remaining_, bytes.size()));
      body.append(bytes.substr(0, taken));
      bytes.remove_prefix(taken);
      remaining_ -= taken;
      if (remaining_ == 0) state_ = State::DataReturn;
      continue;
    }
    const char c = bytes.front();
    bytes.remove_prefix(1);
    if (const Progress progress = step(c); progress != Progress::NeedMore) return progress;
  }
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::step(char c) {
  switch (state_) {
    case State::SizeFirst:
    case State::Size:
      return onSize(c);
    case State::Extension:
      return onExtension(c);
    case State::SizeNewline:
      if (c != '\n') return refuse(Refusal("a chunk size does not end with CRLF"));
      state_ = remaining_ == 0 ? State::TrailerLine : State::Data;
      size_digits_ = 0;
      return Progress::NeedMore;
    case State::DataReturn:
      if (c != '\r') return refuse(Refusal("chunk data does not end with CRLF"));
      state_ = State::DataNewline;
      return Progress::NeedMore;
    case State::DataNewline:
      if (c != '\n') return refuse(Refusal("chunk data does not end with CRLF"));
      state_ = State::SizeFirst;
      return Progress::NeedMore;
    case State::TrailerLine:
      return onTrailer(c);
    case State::TrailerNewline:
      if (c != '\n') return refuse(Refusal("a trailer does not end with CRLF"));
      return endTrailerLine();
    case State::Data:
      break;  // handled in decode()
  }
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::onSize(char c) {
  if (const int digit = hexValue(c); digit >= 0) {
    if (++size_digits_ > kMaxSizeDigits) return refuse(Refusal("a chunk size is too long"));
    remaining_ = remaining_ * 16 + static_cast<std::uint64_t>(digit);
    state_ = State::Size;
    return Progress::NeedMore;
  }
  if (state_ == State::SizeFirst) return refuse(Refusal("a chunk size is malformed"));
  if (c == '\r') {
    state_ = State::SizeNewline;
  } else if (c == ';') {
    state_ = State::Extension;
  } else {
    return refuse(Refusal("a chunk size is malformed"));
  }
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::onExtension(char c) {
  if (c != '\r') {
    if (isControl(c) || ++extension_bytes_ > kMaxExtensionBytes) {
      return refuse(Refusal("a chunk extension is malformed or too long"));
    }
    line_ += c;
    return Progress::NeedMore;
  }
  if (!isExtensionList(line_)) return refuse(Refusal("a chunk extension is malformed"));
  line_.clear();
  state_ = State::SizeNewline;
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::onTrailer(char c) {
  if (c == '\r') {
    state_ = State::TrailerNewline;
    return Progress::NeedMore;
  }
  if (isControl(c)) return refuse(Refusal("a trailer holds a forbidden byte"));
  if (++trailer_bytes_ > kMaxTrailerBytes) {
    return refuse({431, Code::TooLarge, "the trailers are too long"});
  }
  line_ += c;
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::endTrailerLine() {
  if (line_.empty()) return Progress::Done;
  const std::size_t colon = line_.find(':');
  const std::string_view name = std::string_view(line_).substr(0, colon);
  if (colon == std::string::npos || !isToken(name)) {
    return refuse(Refusal("a trailer is malformed"));
  }
  if (isForbiddenTrailer(name)) return refuse(Refusal("a field is not allowed as a trailer"));
  line_.clear();
  state_ = State::TrailerLine;
  return Progress::NeedMore;
}

ChunkedDecoder::Progress ChunkedDecoder::refuse(Refusal refusal) {
  refusal_.emplace(std::move(refusal));
  return Progress::Refused;
}

}  // namespace nimbus::http
