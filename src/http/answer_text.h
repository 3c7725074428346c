#pragma once
// The bytes of answers' heads.

#include "http/response.h"

#include <array>
#include <ctime>
#include <string>
#include <string_view>

namespace nimbus::http {

inline constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";

// "Date: Tue, 15 Nov 1994 08:12:31 GMT\r\n", made anew once a second. One thread.
class DateLine {
 public:
  std::string_view now();

 private:
  std::time_t second_ = 0;
  std::string text_;
};

// Names requests: a random prefix and a count, so that no two of any thread, node or restart are
// the same and making one costs no system call. Not secret. One thread.
class RequestIds {
 public:
  static constexpr std::size_t kPrefix = 12;
  using Storage = std::array<char, 32>;

  RequestIds();

  // Valid as long as `storage`.
  std::string_view next(Storage& storage);

 private:
  std::string prefix_;
  std::uint64_t count_ = 0;
};

enum class Persistence {
  KeepAlive,
  KeepAliveSaidAloud,  // HTTP/1.0 clients must be told
  Close,
};

struct HeadFacts {
  std::string_view date_line;
  std::string_view request_id;
  std::string_view more_fields;  // complete lines
  Persistence persistence = Persistence::KeepAlive;
  bool is_chunked = false;  // the length is not known yet
};

// Appends status line and header fields of `response`, the empty line included.
void appendHead(std::string& out, const Response& response, const HeadFacts& facts);

// False for the statuses whose answers end with their head.
bool mayHaveBody(int status);

}  // namespace nimbus::http
