#include "http/head_parser.h"

#include "http/target.h"
#include "http/text.h"

#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>

#include <algorithm>
#include <charconv>
#include <cstring>

namespace nimbus::http {
namespace {

namespace beast = boost::beast;
using BeastText = beast::string_view;

std::string_view view(BeastText text) {
  return {text.data(), text.size()};
}

// What Beast accepts and we do not, checked on the raw bytes: folded lines, and versions it calls
// malformed though they are only unknown to us.
std::optional<Refusal> checkLines(std::string_view head) {
  std::size_t begin = head.find("\r\n") + 2;
  while (begin < head.size()) {
    if (head[begin] == ' ' || head[begin] == '\t') {
      return Refusal("header fields must not be folded");
    }
    begin = head.find("\r\n", begin) + 2;
  }
  return std::nullopt;
}

std::optional<Refusal> checkVersion(std::string_view head) {
  static constexpr std::size_t kLength = std::string_view("HTTP/1.1").size();
  const std::string_view line = head.substr(0, head.find("\r\n"));
  if (line.size() <= kLength) return std::nullopt;  // Beast says what is missing
  const std::string_view version = line.substr(line.size() - kLength);
  if (line[line.size() - kLength - 1] != ' ' || !version.starts_with("HTTP/")) return std::nullopt;
  if (!isDigit(version[5]) || version[6] != '.' || !isDigit(version[7])) return std::nullopt;
  if (version == "HTTP/1.1" || version == "HTTP/1.0") return std::nullopt;
  return Refusal(505, Code::InvalidArgument, "this server speaks HTTP/1.1 and HTTP/1.0");
}

// host [":" port], with the characters a host or an address literal can have. '@', ',' and spaces
// would let two readers see two hosts.
bool isHost(std::string_view text) {
  static constexpr std::string_view kMarks = "-._~%!$&'()*+;=";
  std::string_view host = text;
  if (const std::size_t colon = text.rfind(':');
      colon != std::string_view::npos && text.find(']', colon) == std::string_view::npos) {
    const std::string_view port = text.substr(colon + 1);
    if (port.size() > 5 || !std::all_of(port.begin(), port.end(), isDigit)) return false;
    host = text.substr(0, colon);
  }
  if (host.empty()) return false;
  if (host.front() == '[') {
    return host.size() > 2 && host.back() == ']' &&
           std::all_of(host.begin() + 1, host.end() - 1,
                       [](char c) { return hexValue(c) >= 0 || c == ':' || c == '.'; });
  }
  return std::all_of(host.begin(), host.end(), [](char c) {
    const char lower = lowerCase(c);
    return (lower >= 'a' && lower <= 'z') || isDigit(c) || kMarks.find(c) != std::string_view::npos;
  });
}

// 00-<32 hex>-<16 hex>-<2 hex>
bool isTraceparent(std::string_view text) {
  static constexpr std::string_view kForm =
      "00-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-xxxxxxxxxxxxxxxx-xx";
  return text.size() == kForm.size() &&
         std::equal(text.begin(), text.end(), kForm.begin(), [](char c, char form) {
           return form == 'x' ? hexValue(c) >= 0 && lowerCase(c) == c : c == form;
         });
}

// Beast's parser checks the grammar and calls us for each part; the parts stay views into its
// input, because folded fields, the one thing it would copy, were refused before.
class HeadParser final : public beast::http::basic_parser<true> {
 public:
  HeadParser(Request& request, Framing& framing, const HeadLimits& limits)
      : request_(request), framing_(framing), limits_(limits) {
    skip(true);  // bodies are ours: see chunked.h
    header_limit(static_cast<std::uint32_t>(limits.max_header_bytes));
  }

  std::optional<Refusal> parse(std::string_view head) {
    beast::error_code failure;
    put(boost::asio::const_buffer(head.data(), head.size()), failure);
    if (failure == beast::http::error::need_more || (!failure && !is_header_done())) {
      // put() parses the request line, then the fields.
      return Refusal("the request line is malformed");
    }
    if (refusal_) return std::move(refusal_);
    if (failure) return describe(failure);
    framing_.keep_alive = keep_alive();
    return finish();
  }

 private:
  void on_request_impl(beast::http::verb /*verb*/, BeastText method, BeastText target, int version,
                       beast::error_code& failure) override {
    request_.version = version;
    request_.target = view(target);
    const auto known = parseMethod(view(method));
    if (!known) return refuse({501, Code::MethodNotAllowed, "the method is not known"}, failure);
    request_.method = *known;
  }

  void on_field_impl(beast::http::field field, BeastText raw_name, BeastText raw_value,
                     beast::error_code& failure) override {
    const std::string_view value = view(raw_value);
    if (request_.headers.size() == limits_.max_headers) {
      return refuse({431, Code::TooLarge, "too many header fields"}, failure);
    }
    request_.headers.push_back({view(raw_name), value});
    switch (field) {
      case beast::http::field::content_length:
        return onContentLength(value, failure);
      case beast::http::field::transfer_encoding:
        return onTransferEncoding(value, failure);
      case beast::http::field::host:
        if (has_host_) return refuse(Refusal("more than one Host"), failure);
        if (!isHost(value)) return refuse(Refusal("Host is malformed"), failure);
        has_host_ = true;
        host_ = value;
        return;
      case beast::http::field::expect:
        return onExpect(value, failure);
      default:
        if (equalIgnoringCase(request_.headers.back().name, "traceparent") &&
            isTraceparent(value)) {
          request_.traceparent = value;
        }
    }
  }

  void onContentLength(std::string_view value, beast::error_code& failure) {
    if (has_content_length_) return refuse(Refusal("more than one Content-Length"), failure);
    has_content_length_ = true;
    const char* const end = value.data() + value.size();
    const auto [stopped, problem] = std::from_chars(value.data(), end, framing_.content_length);
    const bool is_plain = !value.empty() && std::all_of(value.begin(), value.end(), isDigit) &&
                          (value.size() == 1 || value.front() != '0');
    if (problem != std::errc() || stopped != end || !is_plain) {
      return refuse(Refusal("Content-Length is malformed"), failure);
    }
    if (framing_.content_length > 0) framing_.body = Framing::Body::Length;
  }

  void onTransferEncoding(std::string_view value, beast::error_code& failure) {
    if (has_transfer_encoding_) return refuse(Refusal("more than one Transfer-Encoding"), failure);
    has_transfer_encoding_ = true;
    if (request_.version == 10) {
      return refuse(Refusal("HTTP/1.0 has no Transfer-Encoding"), failure);
    }
    if (equalIgnoringCase(value, "chunked")) {
      framing_.body = Framing::Body::Chunked;
      return;
    }
    // A lone coding we do not have is a lack of ours; anything odder is an attack or a bug.
    const bool is_lone_token =
        !value.empty() && std::all_of(value.begin(), value.end(), [](char c) {
          const char lower = lowerCase(c);
          return (lower >= 'a' && lower <= 'z') || c == '-' || isDigit(c);
        });
    static constexpr std::string_view kChunked = "chunked";
    const bool names_chunked =
        std::search(value.begin(), value.end(), kChunked.begin(), kChunked.end(),
                    [](char a, char b) { return lowerCase(a) == b; }) != value.end();
    if (is_lone_token && !names_chunked) {
      return refuse({501, Code::InvalidArgument, "only the transfer coding 'chunked' is known"},
                    failure);
    }
    refuse(Refusal("Transfer-Encoding must be exactly 'chunked'"), failure);
  }

  void onExpect(std::string_view value, beast::error_code& failure) {
    if (!equalIgnoringCase(value, "100-continue")) {
      return refuse({417, Code::InvalidArgument, "only 100-continue can be expected"}, failure);
    }
    framing_.expects_continue = request_.version == 11;  // HTTP/1.0 clients do not wait for it
  }

  std::optional<Refusal> finish() {
    if (has_content_length_ && has_transfer_encoding_) {
      return Refusal("Content-Length together with Transfer-Encoding");
    }
    if (!has_host_ && request_.version == 11) return Refusal("Host is missing");
    if (framing_.body == Framing::Body::None) framing_.expects_continue = false;
    return parseTarget(host_, request_);
  }

  void refuse(Refusal refusal, beast::error_code& failure) {
    refusal_.emplace(std::move(refusal));
    failure = beast::http::error::bad_value;  // only ends the parse
  }

  static Refusal describe(const beast::error_code& failure) {
    using beast::http::error;
    if (failure == error::bad_method) return Refusal("the method is malformed");
    if (failure == error::bad_target) return Refusal("the request target is malformed");
    if (failure == error::bad_version) return Refusal("the HTTP version is malformed");
    if (failure == error::bad_line_ending) return Refusal("a line does not end with CRLF");
    if (failure == error::bad_content_length || failure == error::multiple_content_length) {
      return Refusal("Content-Length is malformed or in conflict");
    }
    if (failure == error::bad_transfer_encoding) {
      return Refusal("Transfer-Encoding is malformed or in conflict");
    }
    if (failure == error::bad_value) return Refusal("a header value holds a forbidden byte");
    return Refusal("a header field is malformed");
  }

  // Never called: skip(true) ends the message with its head.
  void on_response_impl(int /*status*/, BeastText /*reason*/, int /*version*/,
                        beast::error_code& /*failure*/) override {}
  void on_header_impl(beast::error_code& /*failure*/) override {}
  void on_body_init_impl(const boost::optional<std::uint64_t>& /*length*/,
                         beast::error_code& /*failure*/) override {}
  std::size_t on_body_impl(BeastText body, beast::error_code& /*failure*/) override {
    return body.size();
  }
  void on_chunk_header_impl(std::uint64_t /*size*/, BeastText /*extension*/,
                            beast::error_code& /*failure*/) override {}
  std::size_t on_chunk_body_impl(std::uint64_t /*remaining*/, BeastText body,
                                 beast::error_code& /*failure*/) override {
    return body.size();
  }
  void on_finish_impl(beast::error_code& /*failure*/) override {}

  Request& request_;
  Framing& framing_;
  const HeadLimits& limits_;
  std::optional<Refusal> refusal_;
  std::string_view host_;
  bool has_host_ = false;
  bool has_content_length_ = false;
  bool has_transfer_encoding_ = false;
};

}  // namespace

HeadScanner::Found HeadScanner::scan(std::string_view received, const HeadLimits& limits) {
  if (searched_ == 0 && !received.empty() && received[0] != '\r' &&
      !isTokenCharacter(received[0])) {
    return refuse(Refusal("this is not HTTP"));
  }
  while (searched_ < received.size()) {
    const void* const at =
        std::memchr(received.data() + searched_, '\n', received.size() - searched_);
    if (at == nullptr) break;
    const auto newline = static_cast<std::size_t>(static_cast<const char*>(at) - received.data());
    if (newline == line_begin_ || received[newline - 1] != '\r') {
      return refuse(Refusal("a line does not end with CRLF"));
    }
    const std::size_t length = newline - 1 - line_begin_;
    if (lines_ == 0 && length > limits.max_request_line) {
      return refuse({414, Code::TooLarge, "the request line is too long"});
    }
    if (newline >= limits.max_header_bytes) {
      return refuse({431, Code::TooLarge, "the request head is too long"});
    }
    line_begin_ = searched_ = newline + 1;
    if (length == 0 && lines_ > 0) return Found::Head;
    if (length == 0) return refuse(Refusal("the request line is empty"));
    if (lines_++ > limits.max_headers) {
      return refuse({431, Code::TooLarge, "too many header fields"});
    }
  }
  searched_ = received.size();
  return checkUnfinishedLine(received, limits);
}

// Refuses at once what can become no request: neither memory nor the client's time is spent on it.
HeadScanner::Found HeadScanner::checkUnfinishedLine(std::string_view received,
                                                    const HeadLimits& limits) {
  if (lines_ == 0 && received.size() > limits.max_request_line + 1) {
    return refuse({414, Code::TooLarge, "the request line is too long"});
  }
  if (received.size() >= limits.max_header_bytes) {
    return refuse({431, Code::TooLarge, "the request head is too long"});
  }
  return Found::NeedMore;
}

HeadScanner::Found HeadScanner::refuse(Refusal refusal) {
  refusal_.emplace(std::move(refusal));
  return Found::Refused;
}

void HeadScanner::reset() {
  line_begin_ = searched_ = lines_ = 0;
  refusal_.reset();
}

std::optional<Refusal> parseHead(std::string_view head, const HeadLimits& limits, Request& request,
                                 Framing& framing) {
  framing = Framing();
  if (auto refusal = checkVersion(head)) return refusal;
  if (auto refusal = checkLines(head)) return refusal;
  return HeadParser(request, framing, limits).parse(head);
}

}  // namespace nimbus::http
