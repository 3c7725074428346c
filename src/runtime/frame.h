#pragma once
// Frames between server and instance; docs/protocol.md is the specification.

#include "base/result.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nimbus::runtime {

enum class FrameType : std::uint8_t {
  Hello = 1,
  Load = 2,
  Ready = 3,
  Invoke = 4,
  Result = 5,
  Cancel = 6,
  State = 7,
  Log = 8,
};

inline constexpr std::size_t kFrameHeadBytes = 16;
inline constexpr std::size_t kMaxFrameBytes = 64UL * 1024 * 1024;
inline constexpr std::size_t kMaxSegments = 65'535;

// A frame where it lies: views into the bytes that were received.
struct Frame {
  FrameType type = FrameType::Hello;
  std::uint64_t request = 0;
  std::string_view head;
  std::vector<std::string_view> values;  // the segments behind the head
};

// Writes one frame behind what `out` holds. Segments are written one after another, the head
// first; it must be known before how many there will be.
class FrameWriter {
 public:
  FrameWriter(std::string& out, FrameType type, std::uint64_t request, std::size_t segments);

  // Append the segment to `out`, then call this.
  void endSegment();
  void segment(std::string_view bytes) {
    out_.append(bytes);
    endSegment();
  }

  // Every segment was written.
  void finish();

 private:
  std::string& out_;
  const std::size_t begin_;
  const std::size_t segments_;
  std::size_t written_ = 0;
  std::size_t segment_begin_;
};

// Takes bytes as they come and gives whole frames.
class FrameReader {
 public:
  // Room for bytes to be received; received() says how many came.
  std::span<char> room();
  void received(std::size_t bytes);

  // The next whole frame; nothing if it is not whole yet. What it refers to is valid until room()
  // is called. An error: these bytes are no frames, and nothing after them can be read.
  Result<std::optional<Frame>> next();

 private:
  static constexpr std::size_t kRoom = 64UL * 1024;

  std::string buffer_;
  std::size_t begin_ = 0;  // of what was not handed out yet
  std::size_t end_ = 0;    // of what was received
};

}  // namespace nimbus::runtime
