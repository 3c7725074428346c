#pragma once
// Decodes the chunked transfer coding (RFC 9112 section 7.1), strictly:
//
//   chunk     = 1*16HEXDIG *( ";" extension ) CRLF data CRLF
//   last      = 1*16"0" *( ";" extension ) CRLF *( trailer CRLF ) CRLF
//   extension = token [ "=" ( token / quoted-string ) ]
//
// Only CRLF ends a line. Extensions are skipped and trailers read and dropped, both within limits;
// a trailer that would change what the request means is refused. Beast's own decoder is not used:
// it wants each chunk header and all trailers in one piece, and lets bare LF pass in extensions.

#include "http/problem.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nimbus::http {

class ChunkedDecoder {
 public:
  enum class Progress { NeedMore, Done, Refused };

  // Takes what it can off the front of `bytes` and appends the data it finds to `body`. After Done
  // the rest of `bytes` belongs to the next request. A body that would grow over `max_body` is 413.
  Progress decode(std::string_view& bytes, std::size_t max_body, std::string& body);

  // After Refused.
  const Refusal& refusal() const { return *refusal_; }

  void reset() { *this = ChunkedDecoder(); }

 private:
  enum class State {
    SizeFirst,
    Size,
    Extension,
    SizeNewline,
    Data,
    DataReturn,
    DataNewline,
    TrailerLine,
    TrailerNewline,
  };

  Progress step(char c);
  Progress onSize(char c);
  Progress onExtension(char c);
  Progress onTrailer(char c);
  Progress endTrailerLine();
  Progress refuse(Refusal refusal);

  State state_ = State::SizeFirst;
  std::uint64_t remaining_ = 0;  // of the chunk's size while it is read, then of its data
  std::size_t size_digits_ = 0;
  std::size_t extension_bytes_ = 0;  // of all chunks: many small ones must not add up either
  std::size_t trailer_bytes_ = 0;
  std::string line_;  // of the extension or trailer being read
  std::optional<Refusal> refusal_;
};

}  // namespace nimbus::http
