#include "redis/parser.h"

#include <charconv>
#include <utility>

namespace nimbus::redis {
namespace {

Error malformed(const char* what) {
  return {Code::Internal, std::string("Redis answered what is not RESP: ") + what,
          Outcome::Unknown};
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [stop, failure] = std::from_chars(text.data(), end, value);
  if (failure != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

void Parser::feed(std::string_view bytes) {
  if (at_ == buffer_.size()) {
    buffer_.clear();
    at_ = 0;
  } else if (at_ > buffer_.size() / 2) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  buffer_.append(bytes);
}

Result<std::optional<Value>> Parser::next() {
  while (true) {
    Value value;
    NIMBUS_TRY(const Step step, this->step(value));
    if (step == Step::NeedsMore) return std::optional<Value>();
    if (step == Step::Complete && close(value)) return std::optional(std::move(value));
  }
}

bool Parser::close(Value& value) {
  while (!open_.empty()) {
    Open& parent = open_.back();
    if (!parent.dropped) parent.value.items.push_back(std::move(value));
    if (--parent.missing > 0) return false;
    const bool dropped = parent.dropped;
    value = std::move(parent.value);
    open_.pop_back();
    if (dropped) return false;
  }
  return true;
}

Result<Parser::Step> Parser::step(Value& value) {
  if (at_ == buffer_.size()) return Step::NeedsMore;
  const std::string_view rest = std::string_view(buffer_).substr(at_);
  const std::size_t end = rest.substr(0, kMaxLine).find("\r\n");
  if (end == rest.npos) {
    if (rest.size() >= kMaxLine) return malformed("a line without an end");
    return Step::NeedsMore;
  }
  const std::string_view line = rest.substr(1, end == 0 ? 0 : end - 1);
  const std::size_t behind = at_ + end + 2;
  const auto complete = [&] {
    at_ = behind;
    return Step::Complete;
  };
  switch (rest.front()) {
    case '+':
    case ',':
    case '(':
      value.kind = Value::Kind::Text;
      value.text = line;
      return complete();
    case '-':
      value.kind = Value::Kind::Error;
      value.text = line;
      return complete();
    case '_':
      return complete();
    case '#':
      if (line != "t" && line != "f") return malformed("a boolean");
      value.kind = Value::Kind::Integer;
      value.integer = line == "t" ? 1 : 0;
      return complete();
    default:
      break;
  }
  const auto count = number(line);
  if (!count) return malformed("a number");
  switch (rest.front()) {
    case ':':
      value.kind = Value::Kind::Integer;
      value.integer = *count;
      return complete();
    case '$':
    case '=':
      value.kind = Value::Kind::Text;
      return text(value, *count, behind);
    case '!':
      value.kind = Value::Kind::Error;
      return text(value, *count, behind);
    case '*':
    case '~':
      if (*count == -1) return complete();
      value.kind = Value::Kind::Array;
      return open(value, *count, behind);
    case '>':
      value.kind = Value::Kind::Push;
      return open(value, *count, behind);
    case '%':
      value.kind = Value::Kind::Array;
      return open(value, *count > INT32_MAX ? -1 : *count * 2, behind);
    case '|':  // an attribute: read like a map, and dropped
      return open(value, *count > INT32_MAX ? -1 : *count * 2, behind);
    default:
      return malformed("an unknown type");
  }
}

Result<Parser::Step> Parser::text(Value& value, std::int64_t length, std::size_t begin) {
  if (length == -1) {
    value.kind = Value::Kind::Null;
    at_ = begin;
    return Step::Complete;
  }
  if (length < 0 || static_cast<std::size_t>(length) > kMaxText) return malformed("a length");
  const auto size = static_cast<std::size_t>(length);
  if (buffer_.size() - begin < size + 2) return Step::NeedsMore;
  if (buffer_.compare(begin + size, 2, "\r\n") != 0) return malformed("a text without its end");
  std::string_view text(buffer_.data() + begin, size);
  // A verbatim string says first what it is: "txt:".
  if (buffer_[at_] == '=') {
    if (size < 4 || text[3] != ':') return malformed("a verbatim string");
    text.remove_prefix(4);
  }
  value.text = text;
  at_ = begin + size + 2;
  return Step::Complete;
}

Result<Parser::Step> Parser::open(Value& value, std::int64_t count, std::size_t begin) {
  const bool dropped = value.isNull();
  if (count < 0 || count > INT32_MAX) return malformed("a count");
  if (value.kind == Value::Kind::Push && !open_.empty()) return malformed("a push inside a value");
  if (open_.size() == kMaxDepth) return malformed("too many levels");
  at_ = begin;
  if (count == 0) return dropped ? Step::Opened : Step::Complete;
  open_.push_back({std::move(value), static_cast<std::size_t>(count), dropped});
  return Step::Opened;
}

}  // namespace nimbus::redis
