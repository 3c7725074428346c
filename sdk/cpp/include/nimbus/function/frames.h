#pragma once
// Frames, the units of the protocol between server and instance. docs/protocol.md has their layout.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nimbus::native {

enum class FrameType : std::uint8_t {
  Hello = 1,
  Load,
  Ready,
  Invoke,
  Result,
  Cancel,
  State,
  Log,
};

inline constexpr std::size_t kMaxFrame = 64UL << 20U;  // behind the length
inline constexpr std::size_t kMaxSegments = 0xFFFF;
inline constexpr std::size_t kFrameHeader = 16;

// What came is not the protocol. There is no way to find the next frame.
class ProtocolError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// More than a frame can hold.
class FrameTooLarge : public std::runtime_error {
 public:
  FrameTooLarge() : std::runtime_error("more than a frame can hold") {}
};

template <typename Number>
Number readNumber(const char* bytes) {
  Number number = 0;
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    number |=
        static_cast<Number>(static_cast<Number>(static_cast<unsigned char>(bytes[i])) << (8 * i));
  }
  return number;
}

template <typename Number>
void writeNumber(char* bytes, Number number) {
  for (std::size_t i = 0; i < sizeof(Number); ++i) {
    bytes[i] = static_cast<char>((number >> (8 * i)) & 0xFFU);
  }
}

// A frame that came, with its own copy of the bytes: views of its segments are good as long as it
// is, also when it is moved.
struct Frame {
  FrameType type{};
  std::uint64_t request = 0;
  std::int64_t arrived = 0;  // monotonic nanoseconds
  std::vector<char> bytes;
  std::vector<std::string_view> segments;  // at least one

  std::string_view head() const { return segments.front(); }
};

// Takes bytes as they come and gives out the frames that are whole.
class FrameReader {
 public:
  // Throws ProtocolError. Frames are added to `frames`.
  void feed(std::string_view data, std::int64_t arrived, std::deque<Frame>& frames) {
    if (!rest_.empty()) {
      rest_.append(data);
      if (rest_.size() < needed_) return;
      const std::string whole = std::exchange(rest_, {});
      return feed(whole, arrived, frames);
    }
    needed_ = kFrameHeader;
    while (data.size() >= kFrameHeader) {
      const std::size_t size = 4 + std::size_t{readNumber<std::uint32_t>(data.data())};
      const std::size_t count = readNumber<std::uint16_t>(data.data() + 6);
      if (size > 4 + kMaxFrame || count == 0 || kFrameHeader + 4 * count > size) {
        throw ProtocolError("a frame with an impossible length");
      }
      if (data.size() < size) {
        needed_ = size;
        break;
      }
      frames.push_back(frameOf(data.substr(0, size), count, arrived));
      data.remove_prefix(size);
    }
    rest_ = data;
    if (needed_ > kFrameHeader) rest_.reserve(needed_);
  }

 private:
  static Frame frameOf(std::string_view data, std::size_t count, std::int64_t arrived) {
    Frame frame;
    frame.type = static_cast<FrameType>(data[4]);
    frame.request = readNumber<std::uint64_t>(data.data() + 8);
    frame.arrived = arrived;
    const std::size_t start = kFrameHeader + 4 * count;
    frame.bytes.assign(data.begin() + static_cast<std::ptrdiff_t>(start), data.end());
    frame.segments.reserve(count);
    std::string_view rest(frame.bytes.data(), frame.bytes.size());
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t length = readNumber<std::uint32_t>(data.data() + kFrameHeader + 4 * i);
      if (length > rest.size()) throw ProtocolError("a frame that is shorter than its segments");
      frame.segments.push_back(rest.substr(0, length));
      rest.remove_prefix(length);
    }
    if (!rest.empty()) throw ProtocolError("a frame that is longer than its segments");
    return frame;
  }

  std::string rest_;  // a frame that has begun
  std::size_t needed_ = kFrameHeader;
};

// Appends a frame to `out`. Throws FrameTooLarge, and has appended nothing then.
inline void appendFrame(std::string& out, FrameType type, std::uint64_t request,
                        std::string_view head, const std::string_view* values, std::size_t count) {
  const std::size_t segments = 1 + count;
  std::size_t size = kFrameHeader + 4 * segments + head.size();
  for (std::size_t i = 0; i < count; ++i) size += values[i].size();
  if (segments > kMaxSegments || size > 4 + kMaxFrame) throw FrameTooLarge();
  std::size_t at = out.size();
  out.reserve(at + size);
  out.resize(at + kFrameHeader + 4 * segments);
  writeNumber(&out[at], static_cast<std::uint32_t>(size - 4));
  out[at + 4] = static_cast<char>(type);
  writeNumber(&out[at + 6], static_cast<std::uint16_t>(segments));
  writeNumber(&out[at + 8], request);
  at += kFrameHeader;
  writeNumber(&out[at], static_cast<std::uint32_t>(head.size()));
  for (std::size_t i = 0; i < count; ++i) {
    at += 4;
    writeNumber(&out[at], static_cast<std::uint32_t>(values[i].size()));
  }
  out += head;
  for (std::size_t i = 0; i < count; ++i) out += values[i];
}

inline void appendFrame(std::string& out, FrameType type, std::uint64_t request,
                        std::string_view head,
                        std::initializer_list<std::string_view> values = {}) {
  appendFrame(out, type, request, head, values.begin(), values.size());
}

inline void appendFrame(std::string& out, FrameType type, std::uint64_t request,
                        std::string_view head, const std::vector<std::string_view>& values) {
  appendFrame(out, type, request, head, values.data(), values.size());
}

}  // namespace nimbus::native
