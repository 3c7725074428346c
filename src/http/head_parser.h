#pragma once
// From bytes to a Request's head.
//
// Two steps, so that nothing is parsed twice and nothing half-read is believed: HeadScanner finds
// where the head ends while bytes arrive, parseHead() then takes the complete head apart. Both
// refuse whatever two HTTP implementations could read differently; a front proxy and we must never
// disagree about where a request ends.

#include "http/problem.h"
#include "http/request.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace nimbus::http {

struct HeadLimits {
  std::size_t max_header_bytes = 32 * 1024;  // the whole head, request line included
  std::size_t max_request_line = 8 * 1024;
  std::size_t max_headers = 100;
};

class HeadScanner {
 public:
  enum class Found { NeedMore, Head, Refused };

  // `received` begins with the head and holds all of it that has arrived; bytes already looked at
  // are not looked at again.
  Found scan(std::string_view received, const HeadLimits& limits);

  // After Head: its size, the empty line included.
  std::size_t headSize() const { return line_begin_; }
  // After Refused.
  const Refusal& refusal() const { return *refusal_; }

  void reset();

 private:
  Found refuse(Refusal refusal);
  Found checkUnfinishedLine(std::string_view received, const HeadLimits& limits);

  std::size_t line_begin_ = 0;
  std::size_t searched_ = 0;
  std::size_t lines_ = 0;
  std::optional<Refusal> refusal_;
};

// How a request's body is delimited, and what the client asked of the connection.
struct Framing {
  enum class Body { None, Length, Chunked };

  Body body = Body::None;
  std::uint64_t content_length = 0;
  bool keep_alive = true;
  bool expects_continue = false;
};

// `head` is what HeadScanner found. Fills `request` with views into it.
std::optional<Refusal> parseHead(std::string_view head, const HeadLimits& limits, Request& request,
                                 Framing& framing);

}  // namespace nimbus::http
