#include "runtime/frame.h"

#include "base/assert.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

namespace nimbus::runtime {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are copied as they are");

constexpr std::size_t kLengthBytes = 4;

template <typename Number>
Number numberAt(const char* from) {
  Number number = 0;
  std::memcpy(&number, from, sizeof number);
  return number;
}

template <typename Number>
void putNumber(char* to, Number number) {
  std::memcpy(to, &number, sizeof number);
}

Error garbage(std::string why) {
  return {Code::FunctionCrashed, "the instance sent what is no frame: " + std::move(why)};
}

}  // namespace

FrameWriter::FrameWriter(std::string& out, FrameType type, std::uint64_t request,
                         std::size_t segments)
    : out_(out), begin_(out.size()), segments_(segments) {
  NIMBUS_ASSERT(segments >= 1 && segments <= kMaxSegments, "a frame has a head, and is bounded");
  out.resize(begin_ + kFrameHeadBytes + 4 * segments);
  char* const head = out.data() + begin_;
  head[4] = static_cast<char>(type);
  head[5] = 0;
  putNumber(head + 6, static_cast<std::uint16_t>(segments));
  putNumber(head + 8, request);
  segment_begin_ = out.size();
}

void FrameWriter::endSegment() {
  NIMBUS_ASSERT(written_ < segments_, "more segments than announced");
  const auto size = static_cast<std::uint32_t>(out_.size() - segment_begin_);
  putNumber(out_.data() + begin_ + kFrameHeadBytes + 4 * written_, size);
  ++written_;
  segment_begin_ = out_.size();
}

void FrameWriter::finish() {
  NIMBUS_ASSERT(written_ == segments_, "fewer segments than announced");
  putNumber(out_.data() + begin_, static_cast<std::uint32_t>(out_.size() - begin_ - kLengthBytes));
}

std::span<char> FrameReader::room() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    if (buffer_.size() > 16 * kRoom) buffer_ = std::string();  // a large frame has come and gone
  } else if (begin_ > 0 && buffer_.size() - end_ < kRoom) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  if (buffer_.size() - end_ < kRoom) buffer_.resize(std::max(end_ + kRoom, buffer_.size() * 3 / 2));
  return {buffer_.data() + end_, buffer_.size() - end_};
}

void FrameReader::received(std::size_t bytes) {
  end_ += bytes;
}

Result<std::optional<Frame>> FrameReader::next() {
  const char* const from = buffer_.data() + begin_;
  const std::size_t held = end_ - begin_;
  if (held < kLengthBytes) return std::optional<Frame>();
  const std::size_t length = numberAt<std::uint32_t>(from);
  if (length > kMaxFrameBytes) return garbage(fmt::format("one of {} bytes", length));
  if (length < kFrameHeadBytes - kLengthBytes) return garbage("it is too short");
  if (held < kLengthBytes + length) return std::optional<Frame>();

  const std::size_t segments = numberAt<std::uint16_t>(from + 6);
  const std::size_t sizes_end = kFrameHeadBytes + 4 * segments;
  if (segments == 0 || sizes_end > kLengthBytes + length) return garbage("its segments do not fit");
  Frame frame;
  frame.type = static_cast<FrameType>(from[4]);
  frame.request = numberAt<std::uint64_t>(from + 8);
  frame.values.reserve(segments - 1);
  std::size_t at = sizes_end;
  for (std::size_t i = 0; i < segments; ++i) {
    const std::size_t size = numberAt<std::uint32_t>(from + kFrameHeadBytes + 4 * i);
    if (size > kLengthBytes + length - at) return garbage("its segments do not fit");
    const std::string_view segment(from + at, size);
    if (i == 0) {
      frame.head = segment;
    } else {
      frame.values.push_back(segment);
    }
    at += size;
  }
  if (at != kLengthBytes + length) return garbage("its segments do not fill it");
  begin_ += kLengthBytes + length;
  return std::optional(std::move(frame));
}

}  // namespace nimbus::runtime
